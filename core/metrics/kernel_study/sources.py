"""The sources of the forms, as they were compiled: what differs from one to the next."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cache
from importlib import resources
from textwrap import dedent

from llm_lite.core.errors import FileError
from llm_lite.core.metrics.kernel_study.forms import Form

LEFT_OUT = "…"
_COMMON = re.compile(r"#|//|namespace |\}  // namespace")
_SIGNATURE = re.compile(r"void study_\w+\(")


@cache
def source(path: str) -> str:
    """A source file, by its path in the repository. FileError where the build lacks it."""
    place = resources.files("llm_lite_kernels").joinpath("sources", path)
    try:
        return place.read_text("utf-8")
    except OSError as error:
        raise FileError(str(place), "the source is missing; build the kernels first") from error


def code(form: Form) -> list[str]:
    """The lines that are the form's own: without what every file of its kind begins and ends with.

    Of a form with a `function`, that function alone.
    """
    lines = source(form.path).splitlines()
    if form.function:
        begins = re.compile(rf"\S.*\b{form.function}\(")
        first = next(i for i, line in enumerate(lines) if begins.match(line))
        return lines[first : lines.index("}", first) + 1]
    lines = [line for line in lines if not _COMMON.match(line)]
    written = [i for i, line in enumerate(lines) if line]
    return lines[written[0] : written[-1] + 1]


@cache
def shown(form: Form, before: Form | None) -> str:
    """What of the form's code the form before does not have; all of it where there is none."""
    lines = code(form)
    if before is None:
        return "\n".join(lines)
    parts = []
    compared = SequenceMatcher(None, code(before), lines, False)
    for kind, _, _, first, last in compared.get_opcodes():
        if kind in ("replace", "insert"):
            part = [line for line in lines[first:last] if line and not _SIGNATURE.match(line)]
            if part:
                parts.append("\n".join(part + _closing(part, lines[last:])))
    return dedent(f"\n{LEFT_OUT}\n".join(parts))


def _closing(part: list[str], behind: list[str]) -> list[str]:
    """The braces right behind a part that close those that it opens."""
    text = "".join(part)
    opened = max(0, text.count("{") - text.count("}"))
    braces = next((i for i, line in enumerate(behind) if line.strip() != "}"), len(behind))
    return behind[: min(opened, braces)]
