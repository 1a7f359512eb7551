"""The messages of IBus as values of this program. They are read as untrusted: lengths, types and
positions of text are checked, and what does not fit is left out."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

LONGEST_COMPOSITION = 1024  # characters
LONGEST_COMMIT = 100_000  # characters
MOST_SPANS = 64
COMMIT_MODE = 1  # IBUS_ENGINE_PREEDIT_COMMIT: kept, not dropped, when the field is left
UNDERLINE, BACKGROUND = 1, 3  # IBusAttrType
DOUBLE = 2  # IBusAttrUnderline: the clause that is being converted


class Span(Struct, frozen=True):
    """Characters [start, end) of a composition that stand out: the selected clause."""

    start: int
    end: int


class Composition(Struct, frozen=True):
    """Text that is not yet part of the field; `caret` counts characters of it."""

    text: str = ""
    caret: int = 0
    selected: tuple[Span, ...] = ()
    kept: bool = False  # when the field is left, it is committed


NOTHING = Composition()


class Committed(Struct, frozen=True):
    text: str


class Composed(Struct, frozen=True):
    composition: Composition


class ShowsComposition(Struct, frozen=True):
    """The known composition is shown or hidden."""

    shown: bool


class Forwarded(Struct, frozen=True):
    """A key that the program is to treat as if the input method had not seen it."""

    keyval: int  # X keysym
    keycode: int  # evdev
    state: int  # X modifiers


class Answered(Struct, frozen=True):
    """The answer to call `number`; for a key it says if the input method took it."""

    number: int
    taken: bool


class Connected(Struct, frozen=True):
    pass


class Lost(Struct, frozen=True):
    """The daemon has ended or sent what cannot be understood; an empty reason: there is none."""

    reason: str


IBusEvent = Committed | Composed | ShowsComposition | Forwarded | Answered | Connected | Lost


def read_signal(member: str, body: tuple[Any, ...]) -> IBusEvent | None:
    """Read a signal of an input context; None if it is not used, or does not fit."""
    match member, body:
        case "CommitText", (text,):
            words = _text(text)[:LONGEST_COMMIT]
            return Committed(words) if words else None
        case "UpdatePreeditText", (text, int(caret), shown):
            return Composed(_composition(text, caret, False) if shown else NOTHING)
        case "UpdatePreeditTextWithMode", (text, int(caret), shown, int(mode)):
            kept = mode == COMMIT_MODE
            return Composed(_composition(text, caret, kept) if shown else NOTHING)
        case "ShowPreeditText", ():
            return ShowsComposition(True)
        case "HidePreeditText", ():
            return ShowsComposition(False)
        case "ForwardKeyEvent", (int(keyval), int(keycode), int(state)):
            return Forwarded(keyval, keycode, state)
    return None


def _composition(value: Any, caret: int, kept: bool) -> Composition:
    text = _text(value)[:LONGEST_COMPOSITION]
    return Composition(text, min(max(caret, 0), len(text)), _selected(value, len(text)), kept)


def _text(value: Any) -> str:
    """Return the text of an IBusText: ('(sa{sv}sv)', (name, attachments, text, attributes))."""
    match value:
        case (str(), ("IBusText", dict(), str(text), _)):
            # As one line without control characters, whatever it was; a field takes line breaks.
            return "".join(c for c in text if c.isprintable() or c in "\n\t ")
    return ""


def _selected(value: Any, length: int) -> tuple[Span, ...]:
    """Return the selected spans of an IBusText's IBusAttrList ('(sa{sv}av)', (name, attachments,
    attributes)); one that covers everything makes nothing stand out."""
    match value:
        case (str(), (_, _, _, (str(), ("IBusAttrList", dict(), list(attributes))))):
            spans = [_span(one, length) for one in attributes[:MOST_SPANS]]
            return tuple(span for span in spans if span is not None)
    return ()


def _span(value: Any, length: int) -> Span | None:
    match value:
        case (str(), ("IBusAttribute", dict(), int(kind), int(style), int(start), int(end))):
            stands_out = kind == BACKGROUND or (kind == UNDERLINE and style == DOUBLE)
            start, end = max(0, start), min(end, length)
            if stands_out and start < end and end - start < length:
                return Span(start, end)
    return None
