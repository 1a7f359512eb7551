"""A call whose arguments are still being written: told as they come, in the model's own words."""

from __future__ import annotations

import re
from collections.abc import Collection

from llm_lite.core.messages import ToolStyle
from llm_lite.core.tools.calls import CallSplit

# Styles in which nothing but a call can begin so, an object that has its name in it.
WITH_NAME_INSIDE: tuple[ToolStyle, ...] = ("tags", "bar")
_BEGINNING = re.compile(
    r'\s*\[?\s*\{\s*"name"\s*:\s*"([\w.-]{1,64})"\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)'
)
_MARK = re.compile(r'[{}\[\]"\\]')
_TOLD_APART = 400  # characters: a name that is not known by then is told with the whole call


class BegunCall:
    """`at` is where in all that was heard its arguments, an object, are read on."""

    def __init__(self, name: str, at: int) -> None:
        self.name = name
        self._at, self._depth = at, 0
        self._in_text = self._is_over = False

    def fresh(self, heard: str) -> str:
        """What is new of the arguments, up to the object's end."""
        if self._is_over:
            return ""
        begin, place = self._at, self._at
        while mark := _MARK.search(heard, place):
            place = mark.end()
            if mark[0] == "\\":
                if place == len(heard):  # what it escapes is not there yet
                    place -= 1
                    break
                place += 1
            elif mark[0] == '"':
                self._in_text = not self._in_text
            elif not self._in_text:
                self._depth += 1 if mark[0] in "{[" else -1
                if not self._depth:
                    self._is_over = True
                    break
        else:
            place = len(heard)
        self._at = place
        return heard[begin:place]


def begun_in(
    calls: CallSplit, names: Collection[str], *, demanded: bool = False
) -> BegunCall | None:
    """The call that is being written, once it is known which function it is of. `demanded`: the
    answer can be nothing but a call, whatever its style."""
    if not calls.inside or calls.is_ended:
        return None
    if not demanded and calls.style not in WITH_NAME_INSIDE:
        return None
    found = _BEGINNING.match(calls.held[:_TOLD_APART])
    if found is None or found[1] not in names:
        return None
    return BegunCall(found[1], len(calls.raw) - len(calls.held) + found.end())
