"""The worker process that reads the text of a PDF. Started by `pdf` only."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Mapping
from typing import Any

from llm_lite.core.text.sandbox.serving import Action, Answer, serve


def main() -> None:
    serve(_actions)


def _actions() -> Mapping[str, Action]:
    logging.disable(logging.CRITICAL)
    return {"text": _text}


def _text(request: dict[str, Any], data: bytes) -> Answer:
    """Return the text of the pages, each under a line with its number. `whole` is about how many
    characters there are where pages were left out, else 0."""
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"locked": True}
    count = len(reader.pages)
    parts: list[str] = []
    size, done = 0, 0
    begun = time.process_time()
    for number in range(count):
        if done == request["pages"] or size > request["characters"]:
            break
        if time.process_time() - begun > request["seconds"]:
            break
        words = _page(reader, number)
        done += 1
        if words:
            part = f"[Page {number + 1}]\n{words}"
            parts.append(part)
            size += len(part) + 2
    text = "\n\n".join(parts)[: request["characters"]]
    whole = len(text) * count // done if 0 < done < count else max(size - 2, 0)
    return {"text": text, "whole": max(whole, len(text)), "pages": count}


def _page(reader: Any, number: int) -> str:
    """Return a page's text; a broken page is reported as such, and does not cost the others."""
    try:
        return str(reader.pages[number].extract_text()).strip()
    except MemoryError:
        raise
    except Exception as error:
        return f"(this page cannot be read: {type(error).__name__})"
