"""Keys in the order that a person typed them, each held until the input method has answered.

The daemon takes a key or leaves it to the program; meanwhile it sends what it composes and commits.
All of that comes in one order, so that nothing is lost, doubled or moved. Where it does not answer
within LIMIT, keys go their normal way, and its late answers to them are ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct, field

from llm_lite.desktop.app.input_method.messages import (
    NOTHING,
    Answered,
    Committed,
    Composed,
    Composition,
    Connected,
    Forwarded,
    IBusEvent,
    Lost,
    ShowsComposition,
)

LIMIT = 0.5  # seconds that a key waits for an answer, while nothing else waits for it
MOST_HANGS = 5  # keys in a row that were not answered in time: then no more are sent
PATIENCE = 10.0  # seconds that a daemon may be silent; keys go their normal way meanwhile
PRESS, RELEASE, REPEAT = 1, 0, 2  # GLFW's actions
RELEASED = 1 << 30  # IBus's mask in the state of a key
BARRIER = (0xFFFFFF, 0, RELEASED)  # XK_VoidSymbol goes up: no input method takes that
Rect = tuple[int, int, int, int]  # x, y, width, height in pixels


class Field(Protocol):
    """The field with the focus, which receives keys and text by way of Dear ImGui."""

    def key(self, key: int, scancode: int, action: int, mods: int) -> None: ...
    def character(self, code: int) -> None: ...
    def text(self, text: str) -> None: ...
    def symbol(self, keyval: int, state: int) -> None:
        """Handle a key that came without a key event."""

    def separate(self) -> None:
        """Let what follows wait for the next frame."""


class Service(Protocol):
    def call(
        self, member: str, signature: str = "", body: tuple[Any, ...] = (), number: int = 0
    ) -> None: ...
    def close(self) -> None: ...


class Key(Struct):
    """A key event of GLFW, with the characters that came with it."""

    key: int
    scancode: int
    action: int
    mods: int
    characters: list[int] = field(default_factory=list)


class _Held(Struct):
    key: Key | Callable[[], None]
    number: int = 0  # of the question; 0: none
    keycode: int = 0  # evdev
    at: float = 0.0  # seconds
    taken: bool | None = None  # the answer
    delivered: bool = False  # the input method has forwarded it


class Exchange:
    def __init__(self, target: Field) -> None:
        self._field = target
        self._service: Service | None = None
        self._held: deque[_Held] = deque()
        self._unanswered: dict[int, None] = {}  # numbers of keys without an answer yet, in order
        self._late: set[int] = set()  # those of them whose answer no longer counts
        self._hung = False
        self._hung_at = 0.0  # seconds
        self._hangs = 0
        self._answered_at = 0.0  # seconds; when an answer came last
        self._number = 0
        self._down: set[int] = set()  # scancodes whose press was taken
        self._inside = False
        self._place: Rect | None = None
        self._place_by = ""
        self._composition, self._shown = NOTHING, True

    @property
    def composition(self) -> Composition:
        """Return what is being composed; nothing while the input method hides it."""
        return self._composition if self._shown else NOTHING

    @property
    def sends_keys(self) -> bool:
        """Return True if a key would be sent to the input method now."""
        return self._service is not None and self._inside and not self._hung

    def gives_up(self, now: float) -> bool:
        """Return True if the daemon is not to be waited for any longer."""
        return self._hangs >= MOST_HANGS or (self._hung and now > self._hung_at + PATIENCE)

    def connect(self, service: Service) -> None:
        self._service = service
        if self._inside:
            service.call("FocusIn")
        self._send_place()

    def type(self, key: Key, question: tuple[int, int, int] | None, now: float) -> bool:
        """Handle a key event; `question` has keysym, evdev keycode and state, if the input method
        is asked for it. False: nothing was done, it may go its normal way at once."""
        sends = question is not None and self.sends_keys
        if not sends and not self._held:
            return False
        held = _Held(key, at=now)
        if sends and question is not None:
            held.number, held.keycode = self._send_key(question), question[1]
        self._held.append(held)
        self._flush()
        return True

    def write(self, code: int) -> bool:
        """Add a character to the key event before it. False: nothing was done, it may go its normal
        way."""
        last = self._held[-1].key if self._held else None
        if isinstance(last, Key):
            last.characters.append(code)
        return isinstance(last, Key)

    def after_keys(self, act: Callable[[], None]) -> None:
        """Call `act` when all that was typed has its answer."""
        if self._held:
            self._held.append(_Held(act))
        else:
            act()

    def focus(self, inside: bool) -> None:
        """Note that a field takes text, or that none does."""
        if inside == self._inside:
            return
        if not inside:
            self.leave()
        self._inside = inside
        if self._service is not None:
            self._service.call("FocusIn" if inside else "FocusOut")

    def place(self, rect: Rect, method: str = "SetCursorLocation") -> None:
        """Report where the caret is, in pixels of the screen: candidates are shown beside it. A
        window that does not know its own place reports pixels of the window, by another method of
        IBus."""
        if rect != self._place:
            self._place, self._place_by = rect, method
            self._send_place()

    def _send_place(self) -> None:
        if self._service is not None and self._place is not None:
            self._service.call(self._place_by, "iiii", self._place)

    def leave(self) -> None:
        """Commit or drop what is composed, as the input method wants it, as the caret goes
        elsewhere; the input method begins again."""
        if not self._composition.text:
            return
        if self._composition.kept:
            self._field.text(self._composition.text)
            self._field.separate()
        self._composition = NOTHING
        self._reset()

    def _reset(self) -> None:
        """Ignore messages from now on until the input method has begun again: they may still be of
        what was composed. The answer to Reset itself comes from the daemon, at
        once; that to a key comes from the input method behind it, after all else."""
        if self._service is not None:
            self._service.call("Reset")
            self._late.update((*self._unanswered, self._send_key(BARRIER)))

    def handle(self, news: IBusEvent, now: float) -> None:
        if isinstance(news, Answered):
            self._answered_at = now
            self._handle_answer(news)
        elif isinstance(news, Lost):
            self.end()
        elif isinstance(news, Connected) or next(iter(self._unanswered), 0) in self._late:
            return
        elif isinstance(news, Committed):
            self._field.text(news.text)
        elif isinstance(news, Composed):
            self._composition, self._shown = news.composition, True
        elif isinstance(news, ShowsComposition):
            self._shown = news.shown
        elif isinstance(news, Forwarded):
            self._forward(news)

    def _handle_answer(self, news: Answered) -> None:
        if news.number not in self._unanswered:
            return
        del self._unanswered[news.number]
        if news.number in self._late:
            self._late.discard(news.number)
            self._hung = self._hung and bool(self._late)
        else:
            self._hangs = 0
        for held in self._held:
            if held.number == news.number:
                held.taken = news.taken
        self._flush()

    def _forward(self, news: Forwarded) -> None:
        """Deliver the held key that comes back by this way, or one that nobody pressed."""
        if news.state & RELEASED:
            return  # every release is delivered anyway
        for held in self._held:
            if held.keycode == news.keycode and held.number and not held.delivered:
                held.delivered = True
                self._deliver(held)
                return
        self._field.symbol(news.keyval, news.state)

    def check(self, now: float) -> None:
        """Deliver all keys their normal way if the first has waited for too long."""
        if self.wait(now) > 0:
            return
        self._hangs += 1
        self._hung, self._hung_at = True, now
        self._keep_composition()
        self._reset()
        self._release_all()

    def wait(self, now: float) -> float:
        """Return the seconds until `check` is to be called."""
        if not self._held:
            return float("inf")
        return max(self._held[0].at, self._answered_at) + LIMIT - now

    def end(self) -> None:
        """End without an input method; nothing of what was typed is lost."""
        service, self._service = self._service, None
        if service is not None:
            service.close()
        self._keep_composition()
        self._unanswered.clear()
        self._late.clear()
        self._hung, self._hangs = False, 0
        self._release_all()

    def _keep_composition(self) -> None:
        if self._composition.text:
            self._field.text(self._composition.text)
        self._composition = NOTHING

    def _send_key(self, question: tuple[int, int, int]) -> int:
        """Send a key to the input method; return the number that the answer will have."""
        self._number += 1
        if self._service is not None:
            self._unanswered[self._number] = None
            self._service.call("ProcessKeyEvent", "uuu", question, self._number)
        return self._number

    def _release_all(self) -> None:
        for held in self._held:
            held.number = 0
        self._flush()

    def _flush(self) -> None:
        while self._held and (self._held[0].number == 0 or self._held[0].taken is not None):
            held = self._held.popleft()
            if isinstance(held.key, Key) and held.taken and held.key.action != RELEASE:
                self._down.add(held.key.scancode)
            elif not held.delivered:
                self._deliver(held)

    def _deliver(self, held: _Held) -> None:
        """Pass a key to the field. Releases that the input method took are passed too: Dear ImGui
        may have seen the press."""
        key = held.key
        if not isinstance(key, Key):
            key()
            return
        action = key.action
        if action == REPEAT and key.scancode in self._down:
            action = PRESS  # Dear ImGui does not know of it yet
        self._down.discard(key.scancode)
        self._field.key(key.key, key.scancode, action, key.mods)
        for code in key.characters:
            self._field.character(code)
