"""Compares the curated list, assets/models.json, with the hub: `python tools/check_models.py`.

A line for each row: whether the file is there, of the size and under the licence that it says.
Ends with 1 where one differs. Needs the network, so no test runs it against the real hub.
"""

from __future__ import annotations

import sys

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.hub.remote.curated import curated_models
from llm_lite.core.hub.remote.searching import show
from llm_lite.core.messages.library import CuratedModel


def differences(row: CuratedModel) -> list[str]:
    try:
        model = show(row.repo)
    except LlmLiteError as error:
        return [str(error)]
    file = next((file for file in model.files if file.name == row.file), None)
    if file is None:
        return [f"has no file {row.file}; there are {', '.join(one.name for one in model.files)}"]
    found = []
    if file.size != row.size:
        found.append(f"{row.file} has {file.size} bytes, not {row.size}")
    if model.licence != row.licence:
        found.append(f"its licence is {model.licence!r}, not {row.licence!r}")
    if model.problem or file.problem:
        found.append(f"does not run here: {model.problem or file.problem}")
    if model.gated:
        found.append("is gated")
    return found


def main() -> int:
    wrong = 0
    for row in curated_models():
        found = differences(row)
        wrong += bool(found)
        print(f"{row.repo}: {'; '.join(found) or 'as listed'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
