"""A conversation in the terminal: what was said, and how the next answer is made."""

from __future__ import annotations

import secrets
from typing import Any

from msgspec import Struct, field

from llm_lite.cli.terminal.answering import StreamedAnswer, execute, generate, load, report
from llm_lite.cli.terminal.output import note
from llm_lite.core.errors import RequestError
from llm_lite.core.handles import WaitingEngine
from llm_lite.core.history.tree import ConversationTree, Turn
from llm_lite.core.messages import (
    CacheRewritten,
    CacheStatus,
    ChatMessage,
    EngineOptions,
    ExecutorChanged,
    ExecutorInfo,
    Generate,
    GenerationFinished,
    LoadModel,
    ModelInfo,
    Overflow,
    Reconfigure,
    Role,
    SamplingOptions,
)
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions
from llm_lite.core.records import replace

PROMPT, CONTINUED = "> ", ". "  # before a line that is typed, and before its further ones
Heads = dict[tuple[int, int], float]  # (layer, head) -> gain, where it is not 1


class TerminalConversation(Struct):
    engine: WaitingEngine
    model: ModelInfo
    executor: ExecutorInfo
    options: EngineOptions
    chosen: dict[str, Any]  # fields of SamplingOptions that the person has set
    form: str = "auto"  # of FORMS in `cli.sampling_words`
    overflow: Overflow = "forget-middle"
    raw: bool = False
    thinking: bool = True  # where the template has a switch for it
    values: dict[str, Any] = field(default_factory=dict)  # of its other variables
    interventions: Interventions = NO_CHANGES
    system: str = ""
    tree: ConversationTree[Turn] = field(default_factory=ConversationTree)
    draft: str = ""  # what the next line begins with, to be edited
    over: bool = False
    gains: Heads = field(default_factory=dict)
    finished: GenerationFinished | None = None  # the last answer
    cache: CacheStatus | None = None
    forgotten: bool = False  # of this conversation, and it was said

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """Return the questions and answers on the path that is shown, in turns."""
        return tuple(turn.message for turn in self.tree.path)

    @property
    def sampling(self) -> SamplingOptions:
        """Return the options that the person chose, over those that the model advises."""
        return self.model.sampling(**self.chosen)

    @property
    def completes(self) -> bool:
        """Return True if the conversation is one text, which the model continues."""
        return completes(self.model, self.form, raw=self.raw)

    def submit(self, question: str) -> None:
        """Errors: RequestError where no answer could be made; nothing was said then."""
        asked = self._in_form((*self.tree.path, Turn(ChatMessage("user", question))))
        answer = self._answer(asked, self.sampling)
        self._show((*asked, Turn(_message(answer))))

    def retry(self) -> None:
        """Answer again with another seed. The last answer stays beside it as another version."""
        before = self._in_form(self.last_turn()[0])
        if self.sampling.temperature == 0:
            note("at temperature 0 the answer is the same for every seed")
        answer = self._answer(before, replace(self.sampling, seed=secrets.randbelow(1 << 32)))
        self._show((*before, Turn(_message(answer))))

    def continue_last(self) -> None:
        """Go on with the last answer, where it was stopped or at its limit."""
        before, last = self.last_turn()
        before = self._in_form(before)
        answer = self._answer((*before, last), self.sampling, continue_last=True)
        begun, more = last.message, _message(answer)
        joined = ChatMessage(
            "assistant",
            begun.content + more.content,
            (*begun.tokens, *more.tokens),
            more.thought or begun.thought,
        )
        self._show((*before, replace(last, message=joined)))

    def undo(self) -> str:
        """Take the last question and its answer back; the question. What is asked in its place
        is another version of it."""
        before = self.last_turn()[0]
        self._show(before[:-1])
        return before[-1].message.content

    def show_version(self, index: int, version: int) -> None:
        """Show a version of message `index`, both from 0, and what followed it."""
        self.tree = self.tree.showing(self.tree.versions(index)[version])

    def last_turn(self) -> tuple[tuple[Turn, ...], Turn]:
        """Return what was said up to the last question, and its answer. RequestError if there is no
        answer yet."""
        if not self.tree.path:
            raise RequestError("there is no answer yet")
        return self.tree.path[:-1], self.tree.path[-1]

    def begin(self, messages: tuple[ChatMessage, ...] = ()) -> None:
        """Begin another conversation, with these messages."""
        self.tree = ConversationTree(tuple(map(Turn, messages)))
        self.forgotten, self.draft = False, ""

    def load(self, source: str) -> None:
        """Another model goes on with what was said, as text: its tokens are others."""
        loaded = load(self.engine, LoadModel(source, self.options), cancel=True)
        self.model, self.executor, self.gains = loaded.model, loaded.executor, {}
        self.tree = self.tree.mapped(lambda turn: _with(turn, tokens=()))

    def reconfigure(self, options: EngineOptions) -> None:
        """Run the model otherwise. RequestError where that cannot be; it stays as it was then."""
        events = execute(self.engine, Reconfigure(options), cancel=True)
        changed = next(event for event in events if isinstance(event, ExecutorChanged))
        self.options, self.executor, self.model = options, changed.executor, changed.model

    def newest_cache(self) -> CacheStatus | None:
        """Return the newest status of the cache that the engine sent."""
        for one in self.engine.poll():
            report(one.event)
            if isinstance(one.event, CacheStatus):
                self.cache = one.event
        return self.cache

    def refuse_elsewhere(self, command: str) -> None:
        """Raise RequestError if the model computes on another machine."""
        if self.executor.backend == "remote":
            raise RequestError(
                f"/{command}: {self.executor.device} computes elsewhere; that can be done to a "
                "model here"
            )

    def _show(self, path: tuple[Turn, ...]) -> None:
        self.tree = self.tree.with_path(path)

    def _in_form(self, path: tuple[Turn, ...]) -> tuple[Turn, ...]:
        """Return what was said with the person's part as questions, or as pieces of the text that
        is continued."""
        role: Role = "text" if self.completes else "user"
        own = ("user", "text")
        return tuple(_with(one, role=role) if one.message.role in own else one for one in path)

    def _answer(
        self,
        path: tuple[Turn, ...],
        sampling: SamplingOptions,
        *,
        continue_last: bool = False,
    ) -> StreamedAnswer:
        system = (ChatMessage("system", self.system),) if self.system else ()
        command = Generate(
            (*system, *(turn.message for turn in path)),
            sampling,
            continue_last=continue_last,
            raw=self.raw,
            overflow=self.overflow,
            thinking=self.thinking,
            values=self.values,
            interventions=None if self.gains else self.interventions or None,
        )
        answer = generate(self.engine, command, shown=True)
        self.finished = answer.finished
        self.cache = answer.cache or self.cache
        if answer.rewritten and not self.forgotten:
            self.forgotten = True
            note(_what_was_forgotten(answer.rewritten, self.model.context))
        return answer


def completes(model: ModelInfo, form: str, *, raw: bool = False) -> bool:
    """Return True if the conversation is one text, which the model continues."""
    return not raw and (form == "completion" or (form == "auto" and not model.has_chat_template))


def _with(turn: Turn, **changes: Any) -> Turn:
    return replace(turn, message=replace(turn.message, **changes))


def _message(answer: StreamedAnswer) -> ChatMessage:
    return ChatMessage("assistant", answer.text, tuple(answer.tokens), answer.thought)


def checked(text: str, source: str = "the line") -> str:
    """Return a text that is valid UTF-8. RequestError if it is not: its other bytes reach Python as
    lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{source} is not valid UTF-8 at character {error.start}") from None
    return text


def _what_was_forgotten(event: CacheRewritten, context: int) -> str:
    gone = sum(last - first for first, last in event.forgotten)
    where = ", ".join(f"{first} to {last - 1}" for first, last in event.forgotten)
    return (
        f"the context of {context} tokens is full: the model no longer sees {gone} tokens of this "
        f"conversation (positions {where}), and will forget more as it goes on; /overflow changes "
        "that, /new begins another one"
    )
