"""The colours of the parts of a code, which the markup process finds.

Of code that is being written the whole lines are asked for, now and then; the last answer holds
for the part that it was about.
"""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct

from llm_lite.desktop.widgets.markup.process import FAILED, Answer, MarkupProcess

LONGEST = 50_000  # characters of code that is coloured
HEAD = 80  # characters by which code that grows is known again
KEPT = 512  # codes
PAUSE = 0.4  # seconds between two requests for code that grows


class Colored(Struct):
    """The parts of `code`: where each begins, and its class."""

    code: str = ""
    starts: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    waiting: str | None = None  # what is waited for
    again: float = 0.0  # when more may be asked for

    def parts(self, begin: int, end: int) -> list[tuple[int, str]]:
        """Ends and classes of the parts between two characters."""
        found: list[tuple[int, str]] = []
        at = bisect_right(self.starts, begin) - 1
        known = min(end, len(self.code))
        while begin < known:
            stop = self.starts[at + 1] if at + 1 < len(self.starts) else known
            begin = min(stop, known)
            found.append((begin, self.kinds[at]))
            at += 1
        if begin < end:
            found.append((end, ""))
        return found


class CodeColors:
    def __init__(self, process: MarkupProcess) -> None:
        self._process = process
        self._known: dict[tuple[str, str], Colored] = {}

    def of(self, language: str, code: str, now: float, live: bool) -> Colored:
        """Return what is known of the colours of `code`, which goes on being written if it is
        `live`."""
        key = (language, code[:HEAD])
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            found = self._known[key] = Colored()
        if not language or len(code) > LONGEST:
            return found
        self._take(found, language)
        wanted = code[: code.rfind("\n") + 1] if live else code
        due = not live or now >= found.again
        if found.waiting is None and wanted and wanted != found.code and due:
            found.waiting, found.again = wanted, now + PAUSE
            self._take(found, language)
        if not code.startswith(found.code):
            return Colored()
        return found

    def _take(self, found: Colored, language: str) -> None:
        if found.waiting is None:
            return
        answer = self._process.highlight(language, found.waiting)
        if answer is not None:
            found.code, found.waiting = found.waiting, None
            found.starts, found.kinds = _starts(answer, found.code)


def _starts(answer: Answer, code: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    parts = answer["parts"] if answer is not FAILED else []
    starts, kinds, at = [], [], 0
    for length, kind in parts:
        starts.append(at)
        kinds.append(kind)
        at += length
    if at != len(code):  # a lexer that drops or adds characters is of no use
        return (0,), ("",)
    return tuple(starts) or (0,), tuple(kinds) or ("",)
