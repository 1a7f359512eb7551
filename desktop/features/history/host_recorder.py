"""Tells the history what is said in the chat, from the state alone.

After each change it compares the messages with those it saw last, by identity: where nothing
changed it costs nothing. It asks the history for nothing, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from llm_lite.core.attached_text import ConversationExtras
from llm_lite.core.history import (
    AnswerEnd,
    AnswerRun,
    History,
    ModelIdentity,
    StoredMessage,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import extras_of
from llm_lite.desktop.features.program.state import AppState, Message

PERIOD = 0.25  # seconds between two looks at all that an answer says so far


class Kept(Struct):
    """A message of the chat in the history."""

    stored: StoredMessage
    shown: Message  # as it was told last
    finished: bool = True
    began: float = 0.0


class Opened(Struct, frozen=True):
    """A conversation as it was read, each message by the key that it has in the chat."""

    conversation: int
    system_prompt: str
    kept: dict[int, Kept]
    selected: dict[int | None, int | None]  # the child that is shown, by its parent
    extras: ConversationExtras = field(default_factory=ConversationExtras)


class Recorder:
    def __init__(self, history: History) -> None:
        self.conversation: int | None = None
        self._history = history
        self._kept: dict[int, Kept] = {}
        self._selected: dict[int | None, int | None] = {}
        self._seen: tuple[Message, ...] = ()
        self._chat = 0
        self._prompt = ""
        self._late: Kept | None = None  # says more than was told
        self._due = 0.0  # when it may be told
        self._opened: dict[int, Opened] = {}  # by the key of the first message
        self._extras = self._kept_extras = ConversationExtras()  # what there is, what is kept
        self._extras_due = 0.0  # when they may be told again

    def expect(self, first: int, opened: Opened) -> None:
        """A conversation whose first message has the key `first` may come into the chat. For any
        thread."""
        self._opened[first] = opened

    def note(self, state: AppState, now: float) -> None:
        """Whatever is new in `state`."""
        if state.chat != self._chat:
            self._turn(state)
        if state.messages is not self._seen:
            self._follow(state, now)
        if self._late is not None and now >= self._due:
            self._write(self._late, now)
        if self.conversation is not None:
            if state.system_prompt != self._prompt:
                self._prompt = state.system_prompt
                self._history.set_system_prompt(self.conversation, self._prompt)
            self._extras = extras_of(state)
            if now >= self._extras_due and self._extras != self._kept_extras:
                self._extras_due = now + PERIOD
                self.keep_extras()

    def key_of(self, message: int) -> int | None:
        """Of a message in the chat, by its number in the history; None where it is not shown."""
        known = ((m.key, self._kept.get(m.key)) for m in self._seen)
        return next((key for key, kept in known if kept and kept.stored.id == message), None)

    def number_of(self, key: int) -> int | None:
        """Of a message of the chat, in the history."""
        kept = self._kept.get(key)
        return kept.stored.id if kept is not None else None

    def end(self) -> None:
        """No more will come: an answer that is being written stays as it is."""
        for kept in self._unfinished():
            self._finish(kept, kept.shown, 0.0)
        self.keep_extras()

    def keep_extras(self) -> None:
        """Tell at once what is kept beside the messages."""
        if self.conversation is not None:
            self._history.set_extras(self.conversation, self._extras, self._kept_extras)
            self._kept_extras = self._extras

    def _unfinished(self) -> Iterable[Kept]:
        known = (self._kept.get(message.key) for message in self._seen[-1:])
        return [kept for kept in known if kept is not None and not kept.finished]

    def _turn(self, state: AppState) -> None:
        """Another conversation is in the chat."""
        self.end()
        self._chat, self._seen, self._late = state.chat, (), None
        self.conversation, self._kept, self._selected = None, {}, {}
        self._extras = self._kept_extras = ConversationExtras()
        first = state.messages[0].key if state.messages else 0
        opened = self._opened.get(first)
        self._opened.clear()
        if opened is not None:
            self.conversation, self._prompt = opened.conversation, opened.system_prompt
            self._kept, self._selected = opened.kept, opened.selected
            self._extras = self._kept_extras = opened.extras

    def _follow(self, state: AppState, now: float) -> None:
        messages, seen = state.messages, self._seen
        same = 0
        for one, other in zip(messages, seen, strict=False):
            if one is not other:
                break
            same += 1
        left = {message.key for message in messages[same:]}
        for gone in self._unfinished():  # an answer that was undone while it was written
            if gone.shown.key not in left and len(seen) > same:
                self._finish(gone, gone.shown, now)
        if self.conversation is None and messages:
            self._prompt = state.system_prompt
            begun = self._history.begin(system_prompt=self._prompt)
            self.conversation = begun.id
        parent = self._kept[messages[same - 1].key].stored.id if same else None
        for index in range(same, len(messages)):
            message = messages[index]
            kept = self._kept.get(message.key)
            if kept is None:
                beside = self._kept.get(seen[index].key) if index < len(seen) else None
                kept = self._add(message, parent, beside, state, now)
            elif message is not kept.shown:
                self._change(kept, message, now)
            self._select(parent, kept.stored.id)
            parent = kept.stored.id
        if messages:
            self._select(parent, None)
        self._seen = messages

    def _select(self, parent: int | None, child: int | None) -> None:
        if self._selected.get(parent) != child and self.conversation is not None:
            self._selected[parent] = child
            self._history.select(self.conversation, parent, child)

    def _add(
        self,
        message: Message,
        parent: int | None,
        beside: Kept | None,
        state: AppState,
        now: float,
    ) -> Kept:
        """A new one behind `parent`; the history shows it from now on."""
        assert self.conversation is not None
        base = beside.stored if beside is not None and beside.stored.parent == parent else None
        if message.role == "assistant" and not message.edited:
            kept = self._begin(message, parent, beside if base else None, state, now)
        else:
            run, end = answered_by(message)
            stored = self._history.add_message(
                self.conversation,
                parent,
                message.text,
                role=message.role,
                attachments=message.attachments,
                based_on=base,
                run=run,
                end=end,
            )
            kept = Kept(stored, message)
        self._kept[message.key] = kept
        self._selected[parent] = kept.stored.id
        return kept

    def _begin(
        self,
        message: Message,
        parent: int | None,
        beside: Kept | None,
        state: AppState,
        now: float,
    ) -> Kept:
        assert self.conversation is not None
        running = state.running
        forced = running.forced if running is not None and beside is not None else ()
        same = zip(forced, beside.shown.tokens if beside else (), strict=False)
        kept_tokens = next((n for n, (a, b) in enumerate(same) if a.id != b.id), len(forced))
        forced = forced[:kept_tokens]
        stored = self._history.begin_answer(
            self.conversation,
            parent,
            run_of(message),
            fork_of=beside.stored if beside and forced else None,
            text="".join(token.text for token in forced),
            tokens=tuple(token.id for token in forced),
        )
        began = running.started if running is not None else now
        kept = Kept(stored, message, finished=False, began=began)
        if message.stop_reason is not None:
            self._finish(kept, message, now)
        elif message.text or message.tokens:
            self._late = kept
        return kept

    def _change(self, kept: Kept, message: Message, now: float) -> None:
        """Of an answer; of others, only what is not kept can change."""
        before, kept.shown = kept.shown, message
        if message.role != "assistant":
            return
        if message.stop_reason is None:
            if kept.finished:
                kept.finished, kept.began = False, now
                self._history.continue_answer(kept.stored)
            if message.tokens is not before.tokens:
                self._late = kept
        elif not kept.finished:
            self._finish(kept, message, now)

    def _write(self, kept: Kept, now: float) -> None:
        self._late, self._due = None, now + PERIOD
        if not kept.finished:
            odds = likelihoods_of(kept.shown)
            self._history.write_answer(kept.stored, *said(kept.shown), odds)

    def _finish(self, kept: Kept, message: Message, now: float) -> None:
        kept.finished = True
        if self._late is kept:
            self._late = None
        end = AnswerEnd(
            message.stop_reason or "stopped",
            message.stats,
            message.problem,
            max(0.0, now - kept.began),
        )
        self._history.finish_answer(kept.stored, *said(message), end, likelihoods_of(message))


def said(message: Message) -> tuple[str, str, tuple[int, ...]]:
    """Text, thoughts and tokens, as the history keeps them."""
    thought = message.thought.text if message.thought else ""
    known = () if message.untokenized else message.tokens
    return message.spoken, thought, tuple(token.id for token in known)


def answered_by(message: Message) -> tuple[AnswerRun | None, AnswerEnd | None]:
    """Of what a tool said: who said it, and how long it took."""
    reply = message.reply
    if reply is None:
        return None, None
    run = AnswerRun(ModelIdentity(reply.name), backend=reply.how, device=reply.server)
    return run, AnswerEnd(seconds=reply.seconds)


def likelihoods_of(message: Message) -> tuple[float, ...]:
    """Of its tokens, -1 for what was not judged."""
    if message.untokenized:
        return ()
    kept = message.likelihoods
    later = (token.probability for token in message.tokens[len(kept) :])
    return (*kept, *(p if p == p else -1.0 for p in later))


def run_of(message: Message) -> AnswerRun:
    tools = message.calls.style if message.calls else ""
    return replace(message.written or AnswerRun(), sampling=message.sampling, tools=tools)
