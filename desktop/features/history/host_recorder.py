"""Messages of the chat as rows of the history, and back.

The recorder writes what is new in the chat, from the state alone. After each change it compares the
messages with those it saw last, by identity: where nothing changed it costs nothing. It reads
nothing and waits for nothing.

`in_chat` makes the messages of a conversation that is opened. In the history messages are a tree;
in the chat they are what is shown, and each holds its other versions with what followed from there.
Nothing here recurses: a tree may be as deep as it has messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import get_args

from msgspec import Struct, field

from llm_lite.core.attached_text import LONGEST_NAME, LONGEST_TEXT, Attachment, ConversationExtras
from llm_lite.core.history import (
    AnswerEnd,
    AnswerRun,
    ConversationTree,
    History,
    ModelIdentity,
    StoredConversation,
    StoredMessage,
)
from llm_lite.core.plain_text import lines
from llm_lite.core.records import replace
from llm_lite.core.tools.calls import MARKS, CallSplit, read_calls
from llm_lite.desktop.features.attachments.state import MOST_FILES
from llm_lite.desktop.features.chat.model import extras_of
from llm_lite.desktop.features.chat.state import Thought
from llm_lite.desktop.features.program.state import AppState, Message, Token
from llm_lite.desktop.features.tools.state import How, ToolReply
from llm_lite.desktop.language.incoming import fit_line, fit_to_show, typed

PERIOD = 0.25  # seconds between two writes of a growing answer


class Kept(Struct):
    """A message of the chat in the history."""

    stored: StoredMessage
    shown: Message  # as it was written last
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
        self._late: Kept | None = None  # has more than was written
        self._due = 0.0  # when it may be written
        self._opened: dict[int, Opened] = {}  # by the key of the first message
        self._extras = self._kept_extras = ConversationExtras()  # what there is, what is kept
        self._extras_due = 0.0  # when they may be written again

    def expect(self, first: int, opened: Opened) -> None:
        """Expect a conversation by the key of its first message. Any thread may call this."""
        self._opened[first] = opened

    def note(self, state: AppState, now: float) -> None:
        """Write what is new in `state`."""
        if state.chat != self._chat:
            self._turn(state)
        if state.messages is not self._seen:
            self._update(state, now)
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
        """Return the key of a message in the chat by its number in the history, if it is shown."""
        known = ((m.key, self._kept.get(m.key)) for m in self._seen)
        return next((key for key, kept in known if kept and kept.stored.id == message), None)

    def number_of(self, key: int) -> int | None:
        """Return the number in the history of a message of the chat."""
        kept = self._kept.get(key)
        return kept.stored.id if kept is not None else None

    def end(self) -> None:
        """Finish the answer that is being written as it is, as no more will come."""
        for kept in self._unfinished():
            self._finish(kept, kept.shown, 0.0)
        self.keep_extras()

    def keep_extras(self) -> None:
        """Write at once what is kept beside the messages."""
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

    def _update(self, state: AppState, now: float) -> None:
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
        """Add a new message behind `parent`, which the history shows from now on."""
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
        """Write what has changed in an answer; nothing that is kept changes in other messages."""
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
            self._history.write_answer(kept.stored, *content_of(kept.shown), odds)

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
        self._history.finish_answer(kept.stored, *content_of(message), end, likelihoods_of(message))


def content_of(message: Message) -> tuple[str, str, tuple[int, ...]]:
    """Return text, thoughts and tokens, as the history keeps them."""
    thought = message.thought.text if message.thought else ""
    known = () if message.untokenized else message.tokens
    return message.spoken, thought, tuple(token.id for token in known)


def answered_by(message: Message) -> tuple[AnswerRun | None, AnswerEnd | None]:
    """Return the server of a tool's answer, as a run, and the time that it took."""
    reply = message.reply
    if reply is None:
        return None, None
    run = AnswerRun(ModelIdentity(reply.name), backend=reply.how, device=reply.server)
    return run, AnswerEnd(seconds=reply.seconds)


def likelihoods_of(message: Message) -> tuple[float, ...]:
    """Return the probabilities of a message's tokens, -1 where one is not known."""
    if message.untokenized:
        return ()
    kept = message.likelihoods
    later = (token.probability for token in message.tokens[len(kept) :])
    return (*kept, *(p if p == p else -1.0 for p in later))


def run_of(message: Message) -> AnswerRun:
    tools = message.calls.style if message.calls else ""
    return replace(message.written or AnswerRun(), sampling=message.sampling, tools=tools)


# A message, and those that are shown behind it.
Chain = tuple[Message, "Chain | None"]


def in_chat(conversation: StoredConversation) -> tuple[tuple[Message, ...], Opened]:
    """Return the messages for the chat, and what the recorder must know of them."""
    tree = ConversationTree.of(conversation)
    tokens: dict[int, Token] = {}
    made = {m.id: _message(m, tokens) for m in conversation.messages}
    shown: dict[int | None, Chain] = {}  # what is shown behind a message
    parents: list[int | None] = [m.id for m in reversed(conversation.messages)]
    for parent in [*parents, None]:
        children = tree.children.get(parent, ())
        if not children:
            continue
        wanted = conversation.summary.selected if parent is None else tree.by_id[parent].selected
        # Where none is chosen, none would be seen, nor could be chosen.
        place = next((i for i, c in enumerate(children) if c.id == wanted), len(children) - 1)
        others = tuple(
            tuple(_walk((made[c.id], shown.get(c.id))))
            for i, c in enumerate(children)
            if i != place
        )
        first = children[place]
        made[first.id] = replace(made[first.id], versions=others, place=place)
        shown[parent] = (made[first.id], shown.get(first.id))
    selected: dict[int | None, int | None] = {m.id: m.selected for m in conversation.messages}
    selected[None] = conversation.summary.selected
    kept = {
        made[m.id].key: Kept(m, made[m.id], m.finished or m.role != "assistant")
        for m in conversation.messages
    }
    prompt = typed(conversation.summary.system_prompt)
    extras = fit_extras(conversation.extras)
    opened = Opened(conversation.summary.id, prompt, kept, selected, extras)
    return tuple(_walk(shown.get(None))), opened


def _walk(chain: Chain | None) -> Iterator[Message]:
    while chain is not None:
        message, chain = chain
        yield message


def _message(stored: StoredMessage, tokens: dict[int, Token]) -> Message:
    """Make a message. `tokens` are those that were made already, by their ids."""
    text = typed(stored.text)
    if stored.role == "tool" and stored.run is not None:
        return Message("tool", text, reply=_reply(stored))
    if stored.role != "assistant":
        return Message(stored.role, text, attachments=tuple(map(_attachment, stored.attachments)))
    thought = typed(stored.thought)
    spelled = [tokens.get(n) or tokens.setdefault(n, Token(n, "", math.nan)) for n in stored.tokens]
    end = stored.end
    calls, spoken = _calls(stored, text), text
    text = calls.visible_text if calls else text
    return Message(
        "assistant",
        text,
        tuple(spelled),
        stop_reason=(end.stop_reason if end else None) or ("end" if stored.finished else "stopped"),
        stats=fit_to_show(end.stats) if end and end.stats else None,
        problem=fit_line(end.problem) if end else "",
        sampling=stored.run.sampling if stored.run else None,
        thought=Thought.of_texts(thought, spoken) if thought else None,
        calls=calls,
        written=fit_to_show(replace(stored.run, sampling=None)) if stored.run else None,
        edited=stored.run is None and stored.based_on is not None,
        restored=bool(spelled),
        likelihoods=stored.likelihoods[: len(spelled)],
    )


def fit_extras(kept: ConversationExtras) -> ConversationExtras:
    files = tuple(
        replace(
            one,
            name=fit_line(one.name, LONGEST_NAME),
            attached=one.attached and _attachment(one.attached),
        )
        for one in kept.files[:MOST_FILES]
        if one.attached or one.path
    )
    return replace(kept, draft=typed(kept.draft), files=files)


def _attachment(stored: Attachment) -> Attachment:
    """Fit an attachment to its limits, as a file of conversations may contain anything."""
    name, text = fit_line(stored.name, LONGEST_NAME), lines(stored.text[:LONGEST_TEXT])
    return replace(stored, name=name, text=text)


def _calls(stored: StoredMessage, text: str) -> CallSplit | None:
    style = next((s for s in MARKS if stored.run is not None and s == stored.run.tools), None)
    return None if style is None else read_calls(style, text)


def _reply(stored: StoredMessage) -> ToolReply:
    assert stored.run is not None
    run = stored.run
    how: How = next((how for how in get_args(How) if how == run.backend), "hand")
    seconds = stored.end.seconds if stored.end else 0.0
    return ToolReply(fit_line(run.model.name, 100), how, fit_line(run.device, 100), seconds)
