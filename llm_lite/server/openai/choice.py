"""One answer as it is told: what of it is thought, what is said, and what is called."""

from __future__ import annotations

import secrets
from typing import Literal

from llm_lite.core.messages import (
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    StopReason,
    TokenDecoded,
    ToolCall,
)
from llm_lite.core.records import dataclass
from llm_lite.core.serving.service import AnswerEvent
from llm_lite.core.text.thinking import MARKS, Split
from llm_lite.core.tools.arguments import coerced
from llm_lite.core.tools.calls import CallSplit
from llm_lite.server.openai.begun_call import BegunCall, begun_in
from llm_lite.server.openai.tools import ToolPlan

FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of a call; its name comes with the first part of it."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Delta:
    """What is new."""

    thought: str = ""
    said: str = ""
    calls: tuple[CallDelta, ...] = ()
    tokens: tuple[TokenDecoded, ...] = ()  # where likelihoods are asked for

    def __bool__(self) -> bool:
        return bool(self.thought or self.said or self.calls or self.tokens)


class Choice:
    """Hears an answer's events; `fresh` gives what they brought since it was asked last."""

    def __init__(self, plan: ToolPlan, *, keeps_tokens: bool = False) -> None:
        self._plan, self._keeps_tokens = plan, keeps_tokens
        self.started: GenerationStarted | None = None
        self.finished: GenerationFinished | None = None
        self.thought_tokens = 0
        self._text = ""  # behind all thoughts: heard, and not yet told
        self._tokens: list[TokenDecoded] = []
        self._split: Split | None = None
        self._calls = CallSplit(plan.style) if plan.style else None
        self._thought_told = self._said_heard = self._said_told = 0
        self._calls_told = self._calls_heard = 0  # what cannot be a call is not told as one
        self._call_id = ""  # of the forced call, or of the begun one
        self._begun: BegunCall | None = None

    @property
    def stats(self) -> GenerationStats:
        return self.finished.stats if self.finished else GenerationStats()

    @property
    def finish_reason(self) -> FinishReason:
        if self._calls_told or self._call_id:
            return "tool_calls"
        reason = self.finished.stop_reason if self.finished else "end"
        return "length" if reason in ("length", "context") else "stop"

    @property
    def stop_reason(self) -> StopReason | None:
        """What finish_reason has no word for."""
        reason = self.finished.stop_reason if self.finished else None
        return reason if reason in ("stop string", "role", "repetition") else None

    def hear(self, event: AnswerEvent) -> None:
        if isinstance(event, TokenDecoded):
            self._hear_text(event.text)
            if self._keeps_tokens:
                self._tokens.append(event)
        elif isinstance(event, GenerationStarted):
            self.started = event
            if event.thinking is not None:
                self._split = Split.of(event.thinking)
        else:
            self.finished = event

    def fresh(self) -> Delta:
        thought, said = self._fresh_text()
        if self._plan.forced:
            return Delta(thought, "", self._forced(said), self._fresh_tokens())
        if self._calls is None:
            return Delta(thought, said, (), self._fresh_tokens())
        words, calls = self._calls_in(self._calls, said)
        return Delta(thought, words, calls, self._fresh_tokens())

    def _hear_text(self, text: str) -> None:
        if self._split is None:
            self._text += text
            return
        self._split = self._split.fed(text)
        self.thought_tokens += self._split.is_thinking

    def _fresh_text(self) -> tuple[str, str]:
        """New thoughts, and new text behind them."""
        text, self._text = self._text, ""
        if self._split is None:
            return "", text
        split = self._split if self.finished is None else self._split.ended()
        thought, said = split.thought, split.said
        new = thought[self._thought_told :], said[self._said_heard :]
        self._thought_told = max(self._thought_told, len(thought))
        self._said_heard = max(self._said_heard, len(said))
        if split.phase == "after" and not split.held and not MARKS[split.thinking.style].ending:
            self._split = None  # nothing but text follows
        return new

    def _calls_in(self, calls: CallSplit, said: str) -> tuple[str, tuple[CallDelta, ...]]:
        """New words outside of calls, and new calls."""
        calls = calls.fed(said) if said else calls
        if self.finished is not None:
            calls = calls.ended()
        self._calls = calls
        words = calls.said[self._said_told :]
        self._said_told += len(words)
        deltas = self._of_begun(calls)
        found = calls.calls[: 1 if self._plan.is_single else None]
        for call in found[self._calls_heard :]:
            self._calls_heard += 1
            if call.name:
                deltas.append(self._call_delta(call))
                self._calls_told += 1
            else:  # what cannot be a call is shown as it was written
                words += call.arguments
        return words, tuple(deltas)

    def _of_begun(self, calls: CallSplit) -> list[CallDelta]:
        """More of the arguments of the call that is being written, or has just been."""
        deltas = []
        if self._begun is None and not (self._plan.is_single and self._calls_told):
            self._begun = begun_in(calls, {spec.name for spec in self._plan.specs})
            if self._begun is not None:
                self._call_id = call_id()
                deltas.append(CallDelta(self._calls_told, self._call_id, self._begun.name, ""))
        if self._begun is not None:
            if more := self._begun.fresh(calls.raw):
                deltas.append(CallDelta(self._calls_told, self._call_id, "", more))
            if len(calls.calls) > self._calls_heard:  # it is whole
                self._begun = None
                self._calls_told += 1
                self._calls_heard += 1
        return deltas

    def _call_delta(self, call: ToolCall) -> CallDelta:
        spec = self._plan.spec(call.name)
        if spec is not None and not call.problem:
            call = coerced(call, spec)
        return CallDelta(self._calls_told, call_id(), call.name, call.arguments)

    def _forced(self, said: str) -> tuple[CallDelta, ...]:
        """The answer is the arguments of one function."""
        if not said:
            return ()
        name = "" if self._call_id else self._plan.forced
        self._call_id = self._call_id or call_id()
        return (CallDelta(0, self._call_id, name, said),)

    def _fresh_tokens(self) -> tuple[TokenDecoded, ...]:
        """Tokens that have no text yet wait for the one that completes it; one that only ends the
        answer is none of it."""
        if not self._tokens:
            return ()
        end = len(self._tokens)
        if self.finished is None:
            while end and not self._tokens[end - 1].text:
                end -= 1
        elif self.finished.stop_reason == "end" and not self._tokens[-1].text:
            end -= 1
        tokens = tuple(self._tokens[:end])
        del self._tokens[:end]
        return tokens


def call_id() -> str:
    return f"call_{secrets.token_hex(12)}"
