"""A conversation read into the cache, without an answer."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from llm_lite.core.exec.executor import StopCheck
from llm_lite.core.generation import prompt
from llm_lite.core.generation.answer import ChatRunner, Emit, cache_status, name_of
from llm_lite.core.generation.prefill import Prefilled, PrefillOptions
from llm_lite.core.generation.prompt import encode, encode_raw, is_open_answer
from llm_lite.core.generation.steps import prefill_steps
from llm_lite.core.generation.token_texts import labelled
from llm_lite.core.messages import ConversationRead, PrefillProgress, PromptToken, Read
from llm_lite.core.messages.interventions import Interventions


class ConversationPrefill(Struct):
    """One `Read`: prefills the conversation, its last answer left open, a step at a time."""

    command: Read
    emit: Emit
    should_stop: StopCheck
    interventions: Interventions | None = None  # those that are set
    _runner: ChatRunner | None = None
    _steps: Iterator[Prefilled] = field(default_factory=lambda: iter(()))
    _reused: int = 0
    _labels: tuple[PromptToken, ...] = ()

    def begin(self, runner: ChatRunner) -> None:
        self._runner, messages = runner, self.command.messages
        file, session = runner.model_file, runner.session
        continue_last = is_open_answer(messages)
        prompt.check_size(file.tokenizer, messages, session.context)
        if self.command.raw:
            encoded = encode_raw(file.tokenizer, messages)
        else:
            thinking, tools, values = self.command.thinking, self.command.tools, self.command.values
            encoded = encode(file, messages, continue_last, thinking, tools, values)
        conversation, afresh = self.command.conversation, self.command.afresh
        options = PrefillOptions(afresh=afresh, name=name_of(messages), conversation=conversation)
        prepared = session.prepare(encoded.ids, options)
        self._reused = prepared.reused
        self._labels = labelled(file.tokenizer, encoded)
        self._steps = prefill_steps(session, prepared, self.should_stop)

    def step(self) -> bool:
        done = next(self._steps, None)
        if done is not None:
            self.emit(PrefillProgress(done.done, done.total))
        return done is not None

    def finish(self) -> None:
        """Emit what the cache holds now."""
        assert self._runner is not None
        session = self._runner.session
        labels = self._labels[: session.context_used]
        self.emit(ConversationRead(labels, len(self._labels)))
        self.emit(cache_status(session, self._reused))

    def interrupted(self, seconds: float) -> None:
        """Ignore the time: nothing is measured of a conversation that is read."""

    def abandon(self) -> None:
        """Emit nothing: the cache keeps what was read."""
