"""A service without a model: it answers as it is told to, token by token, on a thread of its own.

It behaves as the protocol of `core/serving/service.py` says: so many answers at once, others wait,
too many are refused, prefixes that were seen are reused, and what ended can be looked into.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import BusyError, FileChangedError, GoneError, RequestError
from llm_lite.core.handles import Handle
from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.core.messages import (
    Activations,
    Alternative,
    AnswerRequest,
    AttentionRows,
    CacheMeasured,
    ChatMessage,
    EncodeText,
    EngineOptions,
    ExecutorInfo,
    FollowToken,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Inspect,
    LensResult,
    LensRow,
    MeasureCache,
    Mode,
    ModelInfo,
    PromptToken,
    ReadAttentionRows,
    ReadRouting,
    ReadStates,
    RoutingRead,
    ServedRequest,
    ServingStatus,
    StatesRead,
    StepRequest,
    StopReason,
    Thinking,
    TokenDecoded,
    TokenFollowed,
    ToolSpec,
    ToolStyle,
)
from llm_lite.core.questions.attention import AttentionRead, ReadAttention
from llm_lite.core.questions.scores import ReadScores, ScoresRead
from llm_lite.core.records import replace
from llm_lite.core.serving.service import (
    AnswerTokens,
    Embeddings,
    Emit,
    EncodedResponse,
)
from tests.children import PATIENCE
from tests.desktop.engine import lesson as scripted_lesson
from tests.desktop.engine.questions import read_routing, read_states
from tests.scripted_answers import scripted
from tests.server.scripted_model import HEADS, LAYERS, WIDTH, model_info
from tests.server.scripted_modes import ScriptedModes
from tests.server.scripted_words import BEGIN, END, Words, echo

PAGE = 16  # positions; small, so that prefixes of short prompts are reused
Script = Callable[[AnswerRequest], str]


@dataclass
class _Sequence:
    """An answer that waits or runs."""

    number: int
    request: AnswerRequest
    handle: Handle
    prompt: list[int]
    script: list[int]
    asked: float
    reused: int = 0
    said: list[int] = field(default_factory=list)
    shown: str = ""
    running: bool = False
    stopped: bool = False


class ScriptedService:
    """`script` says what is answered; `delay` seconds pass between tokens. `fail_after` tokens, an
    answer fails with a sentence. `hold` makes no token until it is cleared."""

    def __init__(
        self,
        script: Script = echo,
        *,
        delay: float = 0.0,
        parallel: int = 4,
        most_waiting: int = 64,
        context: int = 4096,
        thinks: bool = False,
        tool_style: ToolStyle = "tags",
        fail_after: int | None = None,
        name: str = "scripted",
    ) -> None:
        self.script, self.delay, self.fail_after = script, delay, fail_after
        self.parallel, self.most_waiting, self.context = parallel, most_waiting, context
        self.thinks = thinks
        self.failure = "the scripted answer fails here"
        self.changed = ""  # what has happened to the model's file
        self.words = Words()
        self.requests: list[AnswerRequest] = []  # all that were submitted
        self.asked_values: list[tuple[bool, dict[str, Any]]] = []  # of prompts that were encoded
        self.hold = threading.Event()
        self.hold.set()
        self._model = model_info(name, context, tool_style)
        self.options = EngineOptions(mode="fp32")
        self.modes = ScriptedModes(self._switch)
        self._executor = ExecutorInfo("numpy", "scripted", "", "fp32", "a32", "fp32", "fp32", 1)
        self._numbers = itertools.count(1)
        self._lock = threading.Condition()
        self._waiting: list[_Sequence] = []
        self._running: list[_Sequence] = []
        self._seen: OrderedDict[tuple[int, ...], None] = OrderedDict()  # whole pages, of prompts
        self._kept: OrderedDict[str, tuple[list[int], int]] = OrderedDict()
        self._counts = dict.fromkeys(
            ("finished", "cancelled", "failed", "refused", "prompt", "cached", "new", "steps"), 0
        )
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="scripted", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        self.hold.set()
        self._thread.join(PATIENCE)

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def executor(self) -> ExecutorInfo:
        return self._executor

    def _switch(self, mode: Mode, activations: Activations) -> None:
        self.options = replace(self.options, mode=mode, activations=activations)
        kind = "a8" if activations == "auto" else activations
        self._executor = replace(self._executor, mode=mode, activations=kind)

    def check(self) -> None:
        if self.changed:
            raise FileChangedError("/somewhere/secret/scripted.gguf", self.changed)

    def submit(self, request: AnswerRequest, emit: Emit) -> Handle:
        given = [bool(request.messages), bool(request.tokens), bool(request.text)]
        assert sum(given) == 1, "exactly one of messages, tokens and text"
        prompt = self._prompt(request)
        if len(prompt) >= self.context:
            raise RequestError(
                f"the prompt has {len(prompt)} tokens, the context has room for {self.context}"
            )
        script = self.words.encode(self._answer(request))
        with self._lock:
            self.requests.append(request)
            if len(self._waiting) >= self.most_waiting:
                self._counts["refused"] += 1
                raise BusyError(f"{len(self._waiting)} requests wait already", 1.5)
            handle = Handle(request, lambda report: emit(report.event))
            sequence = _Sequence(
                next(self._numbers), request, handle, prompt, script, time.perf_counter()
            )
            handle.on_cancel = partial(self.cancel, sequence.number)
            self._waiting.append(sequence)
            self._lock.notify_all()
            return handle

    def cancel(self, number: int) -> None:
        with self._lock:
            for sequence in (*self._waiting, *self._running):
                if sequence.number == number:
                    sequence.stopped = True
            self._lock.notify_all()

    def status(self) -> ServingStatus:
        with self._lock:
            now, counts = time.perf_counter(), self._counts
            used = sum(-(-(len(s.prompt) + len(s.said)) // PAGE) for s in self._running)
            return ServingStatus(
                model=self._model.name,
                parallel=self.parallel,
                most_waiting=self.most_waiting,
                context=self.context,
                pages=self.parallel * self.context // PAGE,
                pages_used=used,
                pages_kept=len(self._seen),
                page_tokens=PAGE,
                requests=tuple(
                    _served(s, now, waiting)
                    for group, waiting in ((self._running, False), (self._waiting, True))
                    for s in group
                ),
                finished=counts["finished"],
                cancelled=counts["cancelled"],
                failed=counts["failed"],
                refused=counts["refused"],
                prompt_tokens=counts["prompt"],
                cached_tokens=counts["cached"],
                new_tokens=counts["new"],
                steps=counts["steps"],
                step_seconds=counts["steps"] * self.delay,
            )

    def prompt_tokens(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec] = (),
        thinking: bool = True,
        values: Mapping[str, Any] = {},
    ) -> list[int]:
        offered = "".join(f"[{tool.name}]" for tool in tools)
        self.asked_values.append((thinking, dict(values)))
        said = "".join(f"{message.role}: {message.content}\n" for message in messages)
        return [BEGIN, *self.words.encode(f"{offered}{said}assistant:")]

    def tokenize(self, text: str, add_special: bool = True) -> list[int]:
        return [*([BEGIN] if add_special else []), *self.words.encode(text)]

    def token_texts(self, tokens: Sequence[int]) -> list[str]:
        return [self.words.text(token) for token in tokens]

    def detokenize(self, tokens: Sequence[int]) -> str:
        return self.words.decode(tokens)

    def embed(
        self, texts: Sequence[Sequence[int]], is_unwanted: Callable[[], bool] = lambda: False
    ) -> Embeddings:
        while not self.hold.wait(0.01):
            if is_unwanted():
                raise RequestError("nobody waits for these embeddings any more")
        rows = []
        for tokens in texts:
            row = np.zeros(WIDTH, np.float32)
            for token in tokens:
                row += np.sin(np.arange(WIDTH, dtype=np.float32) * (token + 1))
            rows.append(row / max(float(np.linalg.norm(row)), 1e-9))
        return Embeddings(np.stack(rows), sum(len(tokens) for tokens in texts))

    def encode(
        self, request: EncodeText, is_unwanted: Callable[[], bool] = lambda: False
    ) -> EncodedResponse:
        raise RequestError("scripted is no encoder")

    def answer_tokens(self, response: str) -> AnswerTokens:
        tokens, prompt = self._kept_tokens(response)
        texts = tuple(self.token_texts(tokens))
        return AnswerTokens(response, tuple(tokens), texts, prompt, 0, LAYERS, HEADS)

    def _attention(self, response: str, asked: ReadAttention) -> AttentionRead:
        length = len(self._kept_tokens(response)[0])
        first, last = asked.first or 0, length if asked.last is None else asked.last
        heads = asked.heads or tuple(range(HEADS))
        found = self._maps(response, asked.layer, heads, first, last)
        return AttentionRead(asked.layer, heads, first, found)

    def _maps(
        self, response: str, layer: int, heads: Sequence[int], first: int, last: int
    ) -> NDArray[np.float32]:
        length = len(self._kept_tokens(response)[0])
        if not (0 <= layer < LAYERS and all(0 <= h < HEADS for h in heads) and last <= length):
            raise RequestError(f"there are {LAYERS} layers, {HEADS} heads, {length} positions")
        queries = np.arange(first, last)[None, :, None]
        keys = np.arange(length)[None, None, :]
        head = np.array(heads)[:, None, None]
        scores = np.where(keys <= queries, np.cos((keys + layer) * (head + 1) * 0.7), -np.inf)
        weights = np.exp(scores)
        return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)

    def ask(
        self,
        response: str,
        request: StepRequest,
        is_unwanted: Callable[[], bool] = lambda: False,
        check: Callable[[int], None] = lambda size: None,
    ) -> Any:
        answers: dict[type[StepRequest], Callable[[str, Any], Any]] = {
            ReadAttentionRows: self._rows,
            ReadAttention: self._attention,
            ReadStates: self._states,
            ReadRouting: self._routing,
            Inspect: self._lens,
            FollowToken: self._trace,
            MeasureCache: self._statistics,
            ReadScores: self._scores,
        }
        if type(request) in answers:
            return answers[type(request)](response, request)
        self._kept_tokens(response)
        return scripted(request)

    def _rows(self, response: str, asked: ReadAttentionRows) -> AttentionRows:
        length = len(self._kept_tokens(response)[0])
        heads = asked.heads
        if asked.mode != "heads":
            layers = range(LAYERS) if asked.mode == "rollout" else [asked.layer]
            heads = tuple((layer, head) for layer in layers for head in range(HEADS))
        maps = np.zeros((LAYERS, length, length), np.float32)
        for layer, head in heads:
            maps[layer] += self._maps(response, layer, [head], 0, length)[0]
        whole = maps.sum(axis=0) / len(heads)
        if asked.mode == "rollout":
            whole = np.eye(length, dtype=np.float32)
            for one in maps / HEADS:
                whole = (one + np.eye(length, dtype=np.float32)) / 2 @ whole
        found = whole[asked.position] if asked.direction == "from" else whole[:, asked.position]
        return AttentionRows(asked.position, asked.direction, tuple(found.tolist()))

    def _states(self, response: str, asked: ReadStates) -> StatesRead:
        if asked.layer not in (0, 2):
            raise RequestError(f"layer {asked.layer} has no recurrent state; expected one of 0, 2")
        found = read_states(asked, len(self._kept_tokens(response)[0]), (0, 2))
        (layer, lives), other = found.half_lives
        return replace(found, half_lives=((layer, (lives[0], math.inf)), other))

    def _routing(self, response: str, asked: ReadRouting) -> RoutingRead:
        return read_routing(asked, len(self._kept_tokens(response)[0]), (1, 2))

    def _lens(self, response: str, asked: Inspect) -> LensResult:
        tokens, _ = self._kept_tokens(response)
        position, count = asked.position, asked.count
        if not 0 <= position < len(tokens):
            raise RequestError(f"position {position} is not in 0..{len(tokens) - 1}")
        likely = tuple(tokens[(position + 1 + n) % len(tokens)] for n in range(count))
        chances = (0.5 / 2**n for n in range(count))
        texts = self.token_texts(likely)
        best = tuple(map(Alternative, likely, texts, chances))
        return LensResult(position, tuple(LensRow(layer, best) for layer in range(LAYERS)))

    def _trace(self, response: str, asked: FollowToken) -> TokenFollowed:
        tokens, _ = self._kept_tokens(response)
        made = scripted_lesson.trace(asked)
        places = tuple((place, tokens[place]) for place, _ in made.tokens)
        texts = tuple(self.token_texts([token for _, token in places]))
        return TokenFollowed(replace(made, tokens=places, texts=texts))

    def _statistics(self, response: str, asked: MeasureCache) -> CacheMeasured:
        tokens, _ = self._kept_tokens(response)
        values = np.outer(np.arange(1, LAYERS + 1), tokens).astype(np.float32)
        if asked.what == "received":
            values[0, 0] = np.nan
        rows = tuple(map(tuple, values.tolist()))
        return CacheMeasured(asked.what, 0, 0, rows, tuple(range(LAYERS)))

    def _scores(self, response: str, asked: ReadScores) -> ScoresRead:
        length = len(self._kept_tokens(response)[0])
        values = np.arange(LAYERS * HEADS, dtype=np.float32).reshape(LAYERS, HEADS) / length
        return ScoresRead({name: values + number for number, name in enumerate(SCORES)})

    def _kept_tokens(self, response: str) -> tuple[list[int], int]:
        with self._lock:
            if response not in self._kept:
                raise GoneError(f"the cache holds no response {response!r} (any more)")
            return self._kept[response]

    def _prompt(self, request: AnswerRequest) -> list[int]:
        if request.messages:
            return self.prompt_tokens(
                request.messages, request.tools, request.thinking, request.values
            )
        self.token_texts(request.tokens)  # whether there are such
        return list(request.tokens) or self.tokenize(request.text)

    def _answer(self, request: AnswerRequest) -> str:
        text = self.script(request)
        return f"<think>\nLet me see.\n</think>\n\n{text}" if self._thinks(request) else text

    def _thinks(self, request: AnswerRequest) -> bool:
        return self.thinks and request.thinking and bool(request.messages)

    # The thread of the answers from here on.

    def _work(self) -> None:
        while True:
            with self._lock:
                while not (self._closed or self._waiting or self._running):
                    self._lock.wait()
                if self._closed:
                    break
                self._admit()
                running = list(self._running)
            self.hold.wait()
            if self.delay:
                time.sleep(self.delay)
            self._counts["steps"] += 1
            for sequence in running:
                self._step(sequence)
        for sequence in (*self._running, *self._waiting):
            self._finish(sequence, "error", "the server is being stopped")

    def _admit(self) -> None:
        gone = [s for s in self._waiting if s.stopped]
        self._waiting = [s for s in self._waiting if not s.stopped]
        while self._waiting and len(self._running) < self.parallel:
            self._running.append(self._waiting.pop(0))
        for sequence in gone:
            self._finish(sequence, "stopped")

    def _step(self, s: _Sequence) -> None:
        if not s.running:
            s.running = True
            s.reused = self._reuse(s.prompt)
            self._counts["prompt"] += len(s.prompt)
            self._counts["cached"] += s.reused
            thinking = Thinking("think") if self._thinks(s.request) else None
            labels = tuple(PromptToken(t, self.words.text(t), -1) for t in s.prompt)
            s.handle.emit(GenerationStarted(len(s.prompt), s.reused, labels, thinking))
        if s.stopped:
            self._finish(s, "stopped")
        elif self.fail_after is not None and len(s.said) >= self.fail_after:
            self._finish(s, "error", self.failure)
        elif len(s.said) >= s.request.sampling.max_new_tokens:
            self._finish(s, "length")
        elif len(s.prompt) + len(s.said) >= self.context:
            self._finish(s, "context", f"the context of {self.context} tokens is full")
        else:
            self._say(s)

    def _say(self, s: _Sequence) -> None:
        at_end = len(s.said) == len(s.script)
        token = END if at_end else s.script[len(s.said)]
        text = "" if at_end else self.words.text(token)
        stop = next((x for x in s.request.sampling.stop if x in s.shown + text), "")
        if stop:
            text = (s.shown + text).partition(stop)[0][len(s.shown) :]
        s.said.append(token)
        s.shown += text
        self._counts["new"] += 1
        s.handle.emit(self._token_event(s, token, text))
        if at_end or stop:
            self._finish(s, "end" if at_end else "stop string")

    def _token_event(self, s: _Sequence, token: int, text: str) -> TokenDecoded:
        others = [token, *(t for t in range(2, 40) if t != token)][: s.request.alternatives]
        alternatives = tuple(
            Alternative(t, self.words.text(t) if t < 3 or t in s.said else "�", 0.5 / 2**n)
            for n, t in enumerate(others)
        )
        used = len(s.prompt) + len(s.said)
        first = 1e3 * (time.perf_counter() - s.asked) if len(s.said) == 1 else 0.0
        return TokenDecoded(token, text, 0.5, used, alternatives, 1e3 * self.delay, None, first)

    def _reuse(self, prompt: list[int]) -> int:
        whole = 0
        for end in range(PAGE, len(prompt), PAGE):
            page = tuple(prompt[:end])
            if page in self._seen and whole == end - PAGE:
                whole = end
            self._seen[page] = None
        while len(self._seen) > 256:
            self._seen.popitem(last=False)
        return whole

    def _finish(self, s: _Sequence, reason: StopReason, message: str = "") -> None:
        with self._lock:
            if s in self._running:
                self._running.remove(s)
            self._kept[s.request.response] = ([*s.prompt, *s.said], len(s.prompt))
            while len(self._kept) > 64:
                self._kept.popitem(last=False)
            key = {"stopped": "cancelled", "error": "failed"}.get(reason, "finished")
            self._counts[key] += 1
        seconds = max(time.perf_counter() - s.asked, 1e-6)
        stats = GenerationStats(
            prompt_tokens=len(s.prompt),
            reused_tokens=s.reused,
            new_tokens=len(s.said),
            decode_tok_s=len(s.said) / seconds,
            context_used=len(s.prompt) + len(s.said),
        )
        if reason == "error":
            s.handle.end(message)
        else:
            s.handle.emit(GenerationFinished(reason, stats, message))
            s.handle.end()


def _served(s: _Sequence, now: float, waiting: bool) -> ServedRequest:
    prefilled = len(s.prompt) if s.running else 0
    return ServedRequest(
        s.number,
        s.request.response,
        s.request.client,
        waiting,
        len(s.prompt),
        prefilled,
        len(s.said),
        now - s.asked,
    )
