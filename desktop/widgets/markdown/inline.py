"""What stands in a line: markdown-it's inline tokens to styled spans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from llm_lite.core.plain_text import LONGEST_ADDRESS, can_be_opened, one_line
from llm_lite.desktop.widgets.markdown.blocks import Spans, StyledSpan
from llm_lite.desktop.widgets.ui import Face


def spans_of(tokens: Iterable[Any]) -> Spans:
    """Styled spans, of which neighbours differ in their style."""
    line = _Line()
    for token in tokens:
        line.take(token)
    return _joined(line.spans)


class _Line:
    def __init__(self) -> None:
        self.spans: list[StyledSpan] = []
        self._strong = self._soft = self._struck = 0
        self._links: list[tuple[str, int]] = []  # address, first span

    def take(self, token: Any) -> None:
        kind, nesting = token.type.partition("_")[0], token.nesting
        if kind == "strong":
            self._strong += nesting
        elif kind == "em":
            self._soft += nesting
        elif kind == "s":
            self._struck += nesting
        elif token.type == "link_open":
            self._links.append((str(token.attrs.get("href", "")), len(self.spans)))
        elif token.type == "link_close":
            self._end_link()
        elif kind == "code":
            self._add(token.content, "mono", "code")
        elif kind == "math":
            self._add(token.content, "mono", token.markup)
        elif kind == "image":
            self._image(token)
        elif kind in ("softbreak", "hardbreak"):
            self._add("\n")
        else:
            self._add(token.content)

    def _add(self, words: str, style: Face | None = None, kind: Any = "text") -> None:
        if words:
            link = self._link() if self._links else ""
            face = style or self._face()
            self.spans.append(StyledSpan(words, face, kind, link, self._struck > 0))

    def _face(self) -> Face:
        if self._strong > 0:
            return "bold_italic" if self._soft > 0 else "bold"
        return "italic" if self._soft > 0 else "regular"

    def _link(self) -> str:
        address = self._links[-1][0]
        return address if can_be_opened(address) else ""

    def _end_link(self) -> None:
        """An address that is not opened is told behind the words."""
        address, first = self._links.pop()
        words = "".join(span.text for span in self.spans[first:])
        if not can_be_opened(address) and _shown(address) not in ("", words):
            self._add(f" ({_shown(address)})")

    def _image(self, token: Any) -> None:
        """Pictures are not fetched: what they show, in words, and where they are."""
        address = str(token.attrs.get("src", ""))
        words = "".join(child.content for child in token.children or ()) or token.content
        self._links.append((address, len(self.spans)))
        self._add(words or _shown(address) or "image")
        if can_be_opened(address) and words:
            self._add(f" ({_shown(address)})")
        self._end_link()


def _shown(address: str) -> str:
    return one_line(unquote(address, errors="replace"))[:LONGEST_ADDRESS]


def _joined(spans: list[StyledSpan]) -> Spans:
    made: list[StyledSpan] = []
    for span in spans:
        last = made[-1] if made else None
        alike = last is not None and span.kind == "text" and replace(last, text=span.text) == span
        if last is not None and alike:
            made[-1] = replace(last, text=last.text + span.text)
        else:
            made.append(span)
    return tuple(made)
