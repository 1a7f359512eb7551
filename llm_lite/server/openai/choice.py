"""A `Choice` follows one answer: its thoughts, its text, and its calls of functions."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from typing import Annotated, Literal

from msgspec import Struct, structs

from llm_lite.core.messages import (
    Event,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    TokenDecoded,
    ToolCall,
    ToolStyle,
)
from llm_lite.core.records import replace
from llm_lite.core.text.thinking import MARKS, Split
from llm_lite.core.tools.arguments import coerced
from llm_lite.core.tools.calls import CallSplit
from llm_lite.core.tools.json_values import JsonProblem, read_json
from llm_lite.server.openai.tools import ToolPlan
from llm_lite.server.schema import about

# Styles in which nothing but a call can begin so, an object that has its name in it.
WITH_NAME_INSIDE: tuple[ToolStyle, ...] = ("tags", "bar")
_BEGINNING = re.compile(
    r'\s*\[?\s*\{\s*"name"\s*:\s*"([\w.-]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)'
)
_MARK = re.compile(r'[{}\[\]"\\]')
_LONGEST_NAME_PART = 400  # characters: a name that is not known by then comes with the whole call


class BegunCall:
    """A call that is being written. Its arguments, a JSON object, begin at character `at` of the
    answer's raw text."""

    def __init__(self, name: str, at: int) -> None:
        self.name = name
        self._at, self._depth = at, 0
        self._in_text = self._is_over = False

    def delta(self, text: str) -> str:
        """Return the part of the arguments in `text`, the answer's raw text so far, that is new
        since the last call, up to the object's end."""
        if self._is_over:
            return ""
        begin, place = self._at, self._at
        while mark := _MARK.search(text, place):
            place = mark.end()
            if mark[0] == "\\":
                if place == len(text):  # what it escapes is not there yet
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
            place = len(text)
        self._at = place
        return text[begin:place]


FinishReason = Literal["stop", "length", "tool_calls"]
WhyStopped = Annotated[
    Literal["stop string", "role", "repetition"] | None,
    about(
        "Why it stopped, where it is not by itself: at a string of `stop`, as it began "
        "to speak as somebody else, or as it repeated itself without an end."
    ),
]


class CallDelta(Struct, frozen=True):
    """Characters added to a call since the last delta; the first one of a call has its name."""

    index: int
    id: str
    name: str
    arguments: str


class Delta(Struct, frozen=True):
    """Text, thought and calls added since the last delta."""

    thought: str = ""
    text: str = ""
    calls: tuple[CallDelta, ...] = ()
    tokens: tuple[TokenDecoded, ...] = ()  # where likelihoods are asked for

    def __bool__(self) -> bool:
        return bool(self.thought or self.text or self.calls or self.tokens)


class Choice:
    """One choice of an answer: `feed` takes its events, and `delta` returns the text, thought and
    calls added since its last call."""

    def __init__(self, plan: ToolPlan, *, keeps_tokens: bool = False) -> None:
        self._plan, self._keeps_tokens = plan, keeps_tokens
        self.started: GenerationStarted | None = None
        self.finished: GenerationFinished | None = None
        self.thought_tokens = 0
        self._text = ""  # behind all thoughts, which `delta` has not returned yet
        self._tokens: list[TokenDecoded] = []
        self._split: Split | None = None
        self._calls = CallSplit(plan.style) if plan.style else None
        self._thought_sent = self._text_read = self._text_sent = 0
        self._calls_sent = self._calls_read = 0  # what cannot be a call is sent as text
        self._call_id = ""  # of the forced call, or of the begun one
        self._begun: BegunCall | None = None
        self._is_call_cut = False  # by the limit: the last call is not whole
        self._arguments: list[str] = []  # of the forced call

    @property
    def stats(self) -> GenerationStats:
        return self.finished.stats if self.finished else GenerationStats()

    @property
    def is_cut(self) -> bool:
        """Return whether a limit ended the answer."""
        return self.finished is not None and self.finished.stop_reason in ("length", "context")

    @property
    def finish_reason(self) -> FinishReason:
        """Return how the answer ended; "tool_calls" says that all calls are whole."""
        if (self._calls_sent or self._call_id) and not self._is_call_cut:
            return "tool_calls"
        return "length" if self.is_cut else "stop"

    @property
    def stop_reason(self) -> WhyStopped:
        """Return why the answer ended, where finish_reason has no word for it."""
        reason = self.finished.stop_reason if self.finished else None
        return reason if reason in ("stop string", "role", "repetition") else None

    def feed(self, event: Event) -> None:
        if isinstance(event, TokenDecoded):
            self._feed_text(event.text)
            if self._keeps_tokens:
                self._tokens.append(event)
        elif isinstance(event, GenerationStarted):
            self.started = event
            if event.thinking is not None:
                self._split = Split.of(event.thinking)
        elif isinstance(event, GenerationFinished):
            self.finished = event

    def delta(self) -> Delta:
        """Return the text, thought and calls added since the last call."""
        thought, text = self._new_text()
        if self._plan.forced:
            return Delta(thought, "", self._forced(text), self._new_tokens())
        if self._calls is None:
            return Delta(thought, text, (), self._new_tokens())
        words, calls = self._calls_in(self._calls, text)
        return Delta(thought, words, calls, self._new_tokens())

    def _feed_text(self, text: str) -> None:
        if self._split is None:
            self._text += text
            return
        self._split = self._split.fed(text)
        self.thought_tokens += self._split.is_thinking

    def _new_text(self) -> tuple[str, str]:
        """Return the thought, and the text behind it, added since the last call."""
        text, self._text = self._text, ""
        if self._split is None:
            return "", text
        split = self._split if self.finished is None else self._split.ended()
        thought, text = split.thought, split.visible_text
        new = thought[self._thought_sent :], text[self._text_read :]
        self._thought_sent = max(self._thought_sent, len(thought))
        self._text_read = max(self._text_read, len(text))
        if split.phase == "after" and not split.held and not MARKS[split.thinking.style].ending:
            self._split = None  # nothing but text follows
        return new

    def _calls_in(self, calls: CallSplit, text: str) -> tuple[str, tuple[CallDelta, ...]]:
        """Return the text outside of calls, and the calls, that `text` adds."""
        calls = calls.fed(text) if text else calls
        deltas = self._of_begun(calls)
        if self.finished is not None:
            self._is_call_cut = self.is_cut and _is_cut(calls)
            deltas += self._of_cut(calls)
            calls = calls.ended()
            deltas += self._of_begun(calls)
        self._calls = calls
        words = ""
        found = calls.calls[: 1 if self._plan.is_single else None]
        for call, place in list(zip(found, calls.places, strict=False))[self._calls_read :]:
            self._calls_read += 1
            if self._is_answer(call):
                words += "" if self._text_sent else self._new_words(calls.raw)
            elif call.name:
                deltas.append(self._call_delta(call))
                self._calls_sent += 1
            else:  # what cannot be a call is shown as it was written, where it was
                words += self._new_words(calls.words[:place]) + call.arguments
        if self._begun is None:
            words += self._new_words(calls.visible_text)
        return words, _joined(deltas)

    def _is_answer(self, call: ToolCall) -> bool:
        """Return whether what looks like a call is an answer of the form that was asked for: an
        object of JSON, which may have a name too."""
        return (
            self._plan.or_answer
            and self._plan.style == "llama"
            and self._plan.spec(call.name) is None
        )

    def _new_words(self, text: str) -> str:
        """Return the part of `text`, which is outside of calls, that has not been sent."""
        new = text[self._text_sent :]
        self._text_sent += len(new)
        return new

    def _of_begun(self, calls: CallSplit) -> list[CallDelta]:
        """Return the arguments added to the call that is being written, or has just ended."""
        deltas = []
        if self._begun is None and not (self._plan.is_single and self._calls_sent):
            names = {spec.name for spec in self._plan.specs}
            self._begun = begun_in(calls, names, demanded=bool(self._plan.schema))
            if self._begun is not None:
                self._call_id = call_id()
                deltas.append(CallDelta(self._calls_sent, self._call_id, self._begun.name, ""))
        if self._begun is not None:
            if more := self._begun.delta(calls.raw):
                deltas.append(CallDelta(self._calls_sent, self._call_id, "", more))
            if len(calls.calls) > self._calls_read:  # it is whole
                self._begun = None
                self._calls_sent += 1
                self._calls_read += 1
        return deltas

    def _of_cut(self, calls: CallSplit) -> list[CallDelta]:
        """Return the call that the request demands, where a limit cut it behind its name."""
        begun = calls.begun
        if not self._is_call_cut or not self._plan.schema or self._begun is not None:
            return []
        if begun is None or self._plan.spec(begun.name) is None:
            return []
        self._call_id, self._begun = call_id(), BegunCall(begun.name, len(calls.raw))
        return [CallDelta(self._calls_sent, self._call_id, begun.name, "")]

    def _call_delta(self, call: ToolCall) -> CallDelta:
        spec = self._plan.spec(call.name)
        if call.problem and self._is_call_cut and self._plan.style in WITH_NAME_INSIDE:
            call = replace(call, arguments="")  # none are begun: the text is of the name
        elif spec is not None and not call.problem:
            call = coerced(call, spec)
        return CallDelta(self._calls_sent, call_id(), call.name, call.arguments)

    def _forced(self, text: str) -> tuple[CallDelta, ...]:
        """Return `text` as arguments of the one function that must be called: the whole answer is
        these, and a limit may cut them."""
        self._arguments.append(text)
        if self.is_cut:
            self._is_call_cut = not _is_json("".join(self._arguments))
        if not text and not (self._is_call_cut and not self._call_id):
            return ()
        name = "" if self._call_id else self._plan.forced
        self._call_id = self._call_id or call_id()
        return (CallDelta(0, self._call_id, name, text),)

    def _new_tokens(self) -> tuple[TokenDecoded, ...]:
        """Return the tokens added since the last call. Those without text yet wait for the one that
        completes it; an end token is left out."""
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


def _joined(deltas: list[CallDelta]) -> tuple[CallDelta, ...]:
    """Return one delta for each call."""
    found: dict[str, CallDelta] = {}
    for delta in deltas:
        known = found.get(delta.id)
        more = known.arguments + delta.arguments if known else delta.arguments
        found[delta.id] = structs.replace(known or delta, arguments=more)
    return tuple(found.values())


def _is_cut(calls: CallSplit) -> bool:
    """Return whether a call is being written whose text is not whole, but for the mark behind
    it."""
    if not calls.inside:
        return False
    if "<function=" in calls.held:
        return "</function>" not in calls.held
    known = len(calls.calls)
    ended = calls.ended().calls
    return len(ended) == known or bool(ended[-1].problem)


def _is_json(text: str) -> bool:
    try:
        read_json(text)
    except JsonProblem:
        return False
    return True


def call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def begun_in(
    calls: CallSplit, names: Collection[str], *, demanded: bool = False
) -> BegunCall | None:
    """Return the call that is being written, once it is known which function it is of.
    `demanded`: the answer can be nothing but a call, whatever its style."""
    if not calls.inside or calls.is_ended:
        return None
    if not demanded and calls.style not in WITH_NAME_INSIDE:
        return None
    found = _BEGINNING.match(calls.held[:_LONGEST_NAME_PART])
    if found is None or found[1] not in names:
        return None
    return BegunCall(found[1], len(calls.raw) - len(calls.held) + found.end())
