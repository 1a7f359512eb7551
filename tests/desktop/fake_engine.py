"""An engine without a model: the same messages, in the same order, at times like a real one's."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from llm_lite.core.engine.tokenizing_thread import Tokenizing
from llm_lite.core.handles import CANCELLED, SUPERSEDED, Handle, Outbox, Report, cancel
from llm_lite.core.loading.tokenizers import open_tokenizer
from llm_lite.core.messages import (
    Alternative,
    CacheKept,
    CacheRewritten,
    CacheStatus,
    Cancel,
    CheckKept,
    Command,
    CompareTexts,
    ConversationRead,
    CountTokens,
    EffectRead,
    EncodeText,
    Event,
    ExecutorChanged,
    FollowToken,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Inspect,
    KeepConversation,
    KeptChecked,
    KeptResumed,
    LensResult,
    LoadModel,
    LoadProgress,
    LoadStarted,
    Logged,
    MakeTitle,
    MeasureCache,
    ModelLoaded,
    PrefillProgress,
    PromptToken,
    Read,
    ReadAttentionRows,
    ReadEffect,
    ReadStates,
    Reconfigure,
    ResumeKept,
    Shutdown,
    SpellTokens,
    StopReason,
    Task,
    TextTokenized,
    Thinking,
    TitleMade,
    TokenDecoded,
    TokenizeText,
    TokensSpelled,
    Unfit,
)
from llm_lite.core.records import replace
from tests.desktop import fake_tasks
from tests.desktop.attention_fake import FakeSource
from tests.desktop.encoding_fake import as_encoder, compared, encoded
from tests.desktop.fake_answers import (
    ANSWER,
    KOREAN,
    MORE,
    OTHER,
    OTHER_ID,
    PREFIXES,
    THOUGHT,
    begun,
    count,
    lens,
    look,
    measured,
    pieces_of,
    prompt_tokens,
    read_states,
    spell,
    thinks,
)
from tests.desktop.fake_model import EXECUTOR, MODEL, ROW
from tests.desktop.lesson_fake import followed
from tools.tour.scenes.encoding import BUNDLED

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "tokenizers"


class FakeEngine:
    """`delay` is the time between tokens, in seconds; 0 answers as fast as it can."""

    def __init__(self, delay: float = 0.02, wake: Callable[[], None] | None = None) -> None:
        self.delay = delay
        self.commands: list[Command] = []
        self.source: FakeSource | None = None
        self.executor = EXECUTOR
        self.model = MODEL
        self.encodes = False  # an encoder was loaded
        self.title: str | None = ""  # what it makes of a conversation; None: it is interrupted
        self.unfit: Unfit = ""  # what it says of files that are kept
        self.cached: list[int] = []  # what tells the tokens of the cache apart
        self._reused = 0
        self._wake = wake or (lambda: None)
        self._inbox: queue.Queue[Handle] = queue.Queue()
        self._open: list[Handle] = []
        self._outbox = Outbox(self._wake)
        self._handle: Handle | None = None  # of the command that is carried out
        self._tokenizing = Tokenizing()
        self._stop = threading.Event()  # of that command
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, command: Command) -> Handle:
        handle = Handle(command, self._outbox.put)
        self.commands.append(command)
        if isinstance(command, Cancel):
            cancel(self._open, command)
            handle.end()
            return handle
        if isinstance(command, Shutdown):
            for one in self._open:
                one.cancel()
        self._open = [*(one for one in self._open if not one.is_over), handle]
        self._inbox.put(handle)
        return handle

    def poll(self) -> list[Report]:
        return self._outbox.poll()

    def attention(self, part=None) -> FakeSource | None:
        return self.source

    @property
    def is_idle(self) -> bool:
        return all(handle.is_over for handle in self._open)

    def service(self) -> None:
        """Nobody is served."""

    def coming(self) -> str:
        return ""

    def close(self, timeout: float = 2.0) -> None:
        self.submit(Shutdown())
        self._thread.join(timeout)

    def _tokenize(self, handle: Handle, command: TokenizeText) -> None:
        """By a small tokenizer; a conversation as if there were no template."""
        source = command.source or str(FIXTURES / "qwen" / "tokenizer.json")
        if command.messages is None:
            self._tokenizing.submit(handle, replace(command, source=source), None)
            return
        told = open_tokenizer(source).stages(command.text, False)
        handle.finish(TextTokenized(replace(told, typed=((0, len(command.text)),))))

    def _say(self, event: Event) -> None:
        if self._handle is None or self._handle.is_over:
            self._outbox.emit(event)
        else:
            self._handle.emit(event)

    def _work(self) -> None:
        while not isinstance(command := (handle := self._inbox.get()).command, Shutdown):
            self._handle, self._stop = handle, threading.Event()
            handle.on_cancel = self._stop.set
            if isinstance(command, TokenizeText):
                self._tokenize(handle, command)  # its end comes from another thread
                continue
            if handle.is_cancelled:
                handle.end(CANCELLED, unwanted=True)
            else:
                self._carry_out(command)
            handle.end()
        handle.end()

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, LoadModel):
            self._load(command)
        elif isinstance(command, Reconfigure):
            self._reconfigure(command)
            self.executor = replace(EXECUTOR, mode=command.options.mode)
            self._say(ExecutorChanged(self.executor, self.model))
            self._tell_cache()
        elif isinstance(command, Generate):
            self._generate(command)
        elif isinstance(command, Read):
            self._read(command)
        elif isinstance(command, SpellTokens):
            self._say(TokensSpelled(spell(command.tokens)))
        elif isinstance(command, ReadAttentionRows):
            self._say(look(command))
        elif isinstance(command, Inspect):
            self._say(LensResult(command.position, lens()))
        elif isinstance(command, FollowToken):
            self._say(followed(command, encodes=self.encodes))
        elif isinstance(command, MeasureCache):
            self._say(measured(command, len(self.model.cache.layers)))
        elif isinstance(command, ReadStates):
            held, layers = len(self.cached), self.model.delta_layers
            self._say(read_states(command, held, layers))
        elif isinstance(command, EncodeText):
            self._say(encoded(command))
        elif isinstance(command, CompareTexts):
            self._say(compared(command))
        elif isinstance(command, CountTokens):
            self._say(count(command))
        elif isinstance(command, ReadEffect):
            self._say(EffectRead(0.25))
        elif isinstance(command, KeepConversation | CheckKept | ResumeKept):
            self._keep(command)
        elif isinstance(command, MakeTitle):
            if self.title is None:
                self._handle.end(SUPERSEDED, unwanted=True)
            else:
                self._say(TitleMade(self.title))
        elif isinstance(command, Task):
            problem = fake_tasks.run_task(command, self.executor, self._say, self._pause)
            self._handle.end(problem, unwanted=bool(problem))

    def _pause(self) -> bool:
        """Between two events; whether to stop."""
        return self._rest(self._stop)

    def _rest(self, until: threading.Event) -> bool:
        """Between two events; whether it was cut short."""
        return until.wait(self.delay)

    def _load(self, command: LoadModel) -> None:
        source = command.source or "smollm2-135m-instruct"
        self._say(LoadStarted(source))
        for step in range(11):
            self._say(LoadProgress("reading", step / 10))
            if self._rest(self._stop):
                self._handle.end("cancelled", unwanted=True)
                return
        if "missing" in source:
            self._handle.end(f"{source}: no such file")
            return
        self._say(Logged("info", f"{source}: loaded in 0.4 s", time.time()))
        self._say(Logged("warning", EXECUTOR.reason, time.time()))
        self.encodes = source == BUNDLED
        model = as_encoder(self.model) if self.encodes else self.model
        kv_heads = model.heads if model.embeds else model.kv_heads
        self.source = FakeSource(
            layers=model.layers, heads=model.heads, kv_heads=kv_heads, context=1024
        )
        self._say(ModelLoaded(model, EXECUTOR, 0.42))

    def _read(self, command: Read) -> None:
        words = prompt_tokens(command)[:-2]
        self._say(PrefillProgress(len(words) // 2, len(words)))
        if self._rest(self._stop):
            words = words[: len(words) // 2]
        self._say(ConversationRead(words))

    def _keep(self, command: KeepConversation | CheckKept | ResumeKept) -> None:
        """A file has the length of the cache, and is whole if it says so."""
        path = Path(command.path)
        if isinstance(command, KeepConversation):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"kept {len(self.cached)}")
            size = len(self.cached) * ROW * 60
            self._say(CacheKept(len(self.cached), size, "", 0.0, 0.0))
            return
        words = prompt_tokens(command)[:-2]
        whole = path.read_text().startswith("kept")
        if isinstance(command, CheckKept):
            said = (len(words), len(words), path.stat().st_size) if whole else (0, 0, 0)
            unfit = self.unfit if whole else "damaged"
            event = KeptChecked(*said, unfit, unfit)
            self._say(event)
            return
        self.cached = [hash((word.id, word.text)) for word in words]
        self._say(KeptResumed(words, len(words), 0.05))
        self._tell_cache()

    def _generate(self, command: Generate) -> None:
        started = time.monotonic()
        words = prompt_tokens(command)
        prompt, reused = len(words), self._reuse(words)
        thinking = Thinking("think", inside=True) if thinks(command) else None
        self._say(GenerationStarted(prompt, reused, words, thinking))
        self._tell_cache()
        if self.source:
            self.source.hold_tokens([word.id for word in words], reused)
        for done in range(reused, prompt + 1, max(1, (prompt - reused) // 8)):
            self._say(PrefillProgress(done, prompt))
            if self._rest(self._stop):
                break
        first = time.monotonic()
        count, reason = self._decode(command, prompt)
        stats = GenerationStats(
            prompt_tokens=prompt,
            reused_tokens=reused,
            new_tokens=count,
            prefill_tok_s=prompt / max(first - started, 1e-3),
            decode_tok_s=count / max(time.monotonic() - first, 1e-3),
            ttft_ms=(first - started) * 1e3,
            context_used=len(self.cached),
            peak_rss_bytes=412_000_000,
            read_bytes=100_000_000,
        )
        self._say(GenerationFinished(reason, stats))
        self._tell_cache()

    def _reuse(self, words: tuple[PromptToken, ...]) -> int:
        """Tokens of the prompt that the cache holds; from then on it holds the prompt."""
        told = [hash((word.id, word.text)) for word in words]
        pairs = zip(told[:-1], self.cached, strict=False)
        self._reused = next((i for i, (a, b) in enumerate(pairs) if a != b), None)  # type: ignore[assignment]
        if self._reused is None:
            self._reused = min(len(told) - 1, len(self.cached))
        self.cached = told
        return self._reused

    def _reconfigure(self, command: Reconfigure) -> None:
        """Another context: what does not fit any more is no longer there."""
        context = command.options.context or MODEL.context
        layers = tuple(replace(layer, rows=context) for layer in MODEL.cache.layers)
        if context != self.model.context:
            layout = replace(MODEL.cache, layers=layers, reserved_bytes=0)
            self.model = replace(self.model, context=context, cache=layout)
        self.cached = self.cached[:context]

    def _tell_cache(self) -> None:
        saved = self._reused * ROW * 2 * len(self.model.cache.layers)
        used = sum(prefix.bytes for prefix in PREFIXES)
        self._outbox.emit(
            CacheStatus(
                len(self.cached), self.model.context, self._reused, used, 256 << 20, PREFIXES, saved
            )
        )

    def _decode(self, command: Generate, prompt: int) -> tuple[int, StopReason]:
        korean = any("\uac00" <= c <= "\ud7a3" for c in command.messages[-1].content)
        answer = KOREAN if korean else ANSWER
        if thinks(command):
            answer = f"{THOUGHT}\n</think>\n\n{answer}"
        if command.begin is not None:
            answer = begun(command) + MORE
        pieces = pieces_of(answer)
        for number, piece in enumerate(pieces):
            if self._stop.is_set():
                return number, "stopped"
            if number >= command.sampling.max_new_tokens:
                return number, "length"
            if len(self.cached) >= self.model.context:
                if command.overflow == "stop":
                    return number, "context"
                self._forget(command, pieces[:number])
            self.cached.append(hash((3, piece)))
            used = len(self.cached)
            event = self._token(command, number, piece, used)
            if self.source:
                self.source.grow(1, [event.token])
            self._say(event)
            self._rest(self._stop)
        return len(pieces), "end"

    def _forget(self, command: Generate, said: list[str]) -> None:
        """The second quarter of the full conversation is forgotten, more of it each time."""
        index = len(command.messages)
        answer = tuple(PromptToken(3, piece, index) for piece in said)
        full = (*prompt_tokens(command), *answer)
        first = self.model.context // 4
        last = len(full) - self.model.context // 2
        tokens = (*full[:first], *full[last:])
        self.cached = [hash((token.id, token.text)) for token in tokens]
        if self.source:
            self.source.hold_tokens([token.id for token in tokens], first)
        self._say(CacheRewritten(tokens, ((first, last),)))

    def _token(self, command: Generate, number: int, piece: str, used: int) -> TokenDecoded:
        """Of a steered answer, all tokens from the third on are others."""
        forced = command.forced[number : number + 1]
        if forced and number < len(command.forced) - 1:
            return TokenDecoded(forced[0], piece, math.nan, used)
        token = (
            forced[0] if forced else number + (1000 if command.interventions and number > 1 else 0)
        )
        text = OTHER if token == OTHER_ID else piece
        best = (Alternative(token, text, 0.5), Alternative(OTHER_ID, OTHER, 0.25))
        return TokenDecoded(token, text, 0.5, used, best, 4.0 + number % 3)


class FramedEngine(FakeEngine):
    """So many steps for each frame, however long frames take: what happens between two steps is
    seen."""

    def __init__(self, wake: Callable[[], None] | None = None, steps: int = 1) -> None:
        self._polled = threading.Event()
        self._steps, self._taken = steps, 0
        super().__init__(0.0, wake)

    def poll(self) -> list[Report]:
        reports = super().poll()
        self._polled.set()
        return reports

    def _rest(self, until: threading.Event) -> bool:
        self._taken += 1
        if self._taken % self._steps:
            return until.is_set()
        self._polled.clear()
        while not self._polled.wait(0.01) and not until.is_set():
            pass
        return until.is_set()
