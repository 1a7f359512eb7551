"""Messages of the chat as rows of the history, and back.

The recorder writes what is new in the chat, from the state alone: a message has the same id here
and there. After each change it compares the messages with those it saw last, by identity: where
nothing changed it costs nothing. It reads nothing and waits for nothing.
"""

from __future__ import annotations

import math
from typing import get_args

from msgspec import Struct

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
from llm_lite.core.history.ids import new_id
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


class WrittenAnswer(Struct):
    """The answer that is being written, in the history."""

    stored: StoredMessage
    shown: Message  # as it was seen last
    began: float
    late: bool = False  # it has more than was written


class Recorder:
    def __init__(self, history: History) -> None:
        self.conversation: int | None = None
        self._history = history
        self._known: set[int] = set()  # ids of the messages that the history has
        self._seen = ConversationTree[Message]()
        self._chat = 0
        self._prompt = ""
        self._answer: WrittenAnswer | None = None
        self._due = 0.0  # when it may be written
        self._extras = self._kept_extras = ConversationExtras()  # what there is, what is kept
        self._extras_due = 0.0  # when they may be written again

    def note(self, state: AppState, now: float) -> None:
        """Write what is new in `state`, unless it is the lesson's sentence alone and never was
        more; but first what is new of the conversation before."""
        if state.chat != self._chat:
            self._turn(state)
        if state.is_sentence_only and self.conversation is None:
            return
        if state.tree is not self._seen:
            self._update(state, now)
        if self._answer is not None and self._answer.late and now >= self._due:
            self._write(self._answer, now)
        if self.conversation is not None:
            if state.system_prompt != self._prompt:
                self._prompt = state.system_prompt
                self._history.set_system_prompt(self.conversation, self._prompt)
            self._extras = extras_of(state)
            if now >= self._extras_due and self._extras != self._kept_extras:
                self._extras_due = now + PERIOD
                self.keep_extras()

    def shows(self, message: int) -> bool:
        """Return whether a message is on the path that is shown."""
        return self._seen.index(message) is not None

    def has(self, message: int) -> bool:
        """Return whether a message of the chat is in the history."""
        return message in self._known

    def end(self) -> None:
        """Finish the answer that is being written as it is, as no more will come."""
        if self._answer is not None:
            self._finish(self._answer, self._answer.shown, 0.0)
        self.keep_extras()

    def keep_extras(self) -> None:
        """Write at once what is kept beside the messages."""
        if self.conversation is not None:
            self._history.set_extras(self.conversation, self._extras, self._kept_extras)
            self._kept_extras = self._extras

    def _turn(self, state: AppState) -> None:
        """Another conversation is in the chat: a new one, or one that was just read."""
        self.end()
        self.conversation, self._chat = state.history.open, state.chat
        self._known, self._seen = set(), ConversationTree()
        self._extras = self._kept_extras = ConversationExtras()
        if self.conversation is not None:
            self._known, self._seen = {message.id for message in state.tree}, state.tree
            self._prompt = state.system_prompt
            self._extras = self._kept_extras = extras_of(state)

    def _update(self, state: AppState, now: float) -> None:
        messages, seen = state.messages, self._seen.path
        pairs = enumerate(zip(messages, seen, strict=False))
        shorter = min(len(messages), len(seen))
        same = next((at for at, (one, other) in pairs if one is not other), shorter)
        left = self._answer
        if left is not None and all(m.id != left.stored.id for m in messages[-1:]):
            self._finish(left, state.tree.find(left.stored.id) or left.shown, now)
        if self.conversation is None and messages:
            self._prompt = state.system_prompt
            self.conversation = self._history.begin(system_prompt=self._prompt).id
        parent = messages[same - 1].id if same else None
        branches = False  # another message stands where one was shown, or behind the last
        for index in range(same, len(messages)):
            message, before = messages[index], seen[index] if index < len(seen) else None
            if message.id not in self._known:
                self._add(message, parent, None if branches else before, state, now)
            elif before is not None and before.id == message.id:
                self._change(message, before, parent, now)
            elif not branches or self._left_at(parent) != message.id:
                assert self.conversation is not None
                self._history.select(self.conversation, parent, message.id)
            branches = branches or before is None or before.id != message.id
            parent = message.id
        self._seen = state.tree

    def _left_at(self, message: int | None) -> int | None:
        """Return what was last shown behind a message that was not shown before."""
        aside = self._seen.aside.get(message) if message is not None else None
        return aside.child if aside is not None else None

    def _add(
        self,
        message: Message,
        parent: int | None,
        beside: Message | None,
        state: AppState,
        now: float,
    ) -> None:
        """Add a new message behind `parent`, which the history shows from now on. `beside` is the
        version that was shown before."""
        assert self.conversation is not None
        self._known.add(message.id)
        if message.role == "assistant" and not message.edited:
            self._begin(message, parent, beside, state, now)
            return
        run, end = answered_by(message)
        self._history.add_message(
            self.conversation,
            parent,
            message.text,
            role=message.role,
            attachments=message.attachments,
            based_on=beside,
            run=run,
            end=end,
            number=message.id,
        )

    def _begin(
        self,
        message: Message,
        parent: int | None,
        beside: Message | None,
        state: AppState,
        now: float,
    ) -> None:
        assert self.conversation is not None
        running = state.running
        forced = running.forced if running is not None and beside is not None else ()
        same = zip(forced, beside.tokens if beside else (), strict=False)
        kept_tokens = next((n for n, (a, b) in enumerate(same) if a.id != b.id), len(forced))
        forced = forced[:kept_tokens]
        stored = self._history.begin_answer(
            self.conversation,
            parent,
            run_of(message),
            fork_of=beside if forced else None,
            text="".join(token.text for token in forced),
            tokens=tuple(token.id for token in forced),
            number=message.id,
        )
        began = running.started if running is not None else now
        late = bool(message.text or message.tokens)
        self._answer = WrittenAnswer(stored, message, began, late)
        if message.stop_reason is not None:
            self._finish(self._answer, message, now)

    def _change(self, message: Message, before: Message, parent: int | None, now: float) -> None:
        """Write what has changed in an answer; nothing that is kept changes in other messages."""
        if message.role != "assistant":
            return
        answer = self._answer
        switched = message.written is not None and message.written != before.written
        if answer is not None and answer.stored.id == message.id and switched:
            self._history.set_run(answer.stored, run_of(message))
        if message.stop_reason is None:
            if answer is None:  # one that had ended goes on
                assert self.conversation is not None
                stored = StoredMessage(message.id, self.conversation, parent, "assistant")
                self._history.continue_answer(stored)
                answer = self._answer = WrittenAnswer(stored, message, now)
            answer.shown, answer.late = message, answer.late or message.tokens is not before.tokens
        elif answer is not None and answer.stored.id == message.id:
            self._finish(answer, message, now)

    def _write(self, answer: WrittenAnswer, now: float) -> None:
        answer.late, self._due = False, now + PERIOD
        odds = likelihoods_of(answer.shown)
        self._history.write_answer(answer.stored, *content_of(answer.shown), odds)

    def _finish(self, answer: WrittenAnswer, message: Message, now: float) -> None:
        self._answer = None
        seconds = max(0.0, now - answer.began)
        reason = message.stop_reason or "stopped"
        end = AnswerEnd(reason, message.stats, message.problem, seconds)
        content = content_of(message)
        self._history.finish_answer(answer.stored, *content, end, likelihoods_of(message))


def content_of(message: Message) -> tuple[str, str, tuple[int, ...]]:
    """Return text, thoughts and tokens, as the history keeps them."""
    thought = message.thought.text if message.thought else ""
    known = () if message.untokenized else message.tokens
    return message.visible_text, thought, tuple(token.id for token in known)


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


def in_chat(conversation: StoredConversation) -> ConversationTree[Message]:
    """Return the messages of a kept conversation for the chat."""
    tokens: dict[int, Token] = {}
    new_id(max((message.id for message in conversation.messages), default=0))  # later are larger
    tree = ConversationTree.of(conversation)
    return tree.mapped(lambda stored: replace(_message(stored, tokens), id=stored.id))


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
    calls, visible = _calls(stored, text), text
    text = calls.visible_text if calls else text
    return Message(
        "assistant",
        text,
        tuple(spelled),
        stop_reason=(end.stop_reason if end else None) or ("end" if stored.finished else "stopped"),
        stats=fit_to_show(end.stats) if end and end.stats else None,
        problem=fit_line(end.problem) if end else "",
        sampling=stored.run.sampling if stored.run else None,
        thought=Thought.of_texts(thought, visible) if thought else None,
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
