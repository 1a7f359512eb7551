"""An engine without a model: the same messages, in the same order, at times like a real one's.

It works a step at a time: on a thread that rests between two steps, `delay` seconds or until the
window has polled; or by hand. Requests are served between two steps of an answer.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from llm_lite.core.engine.tokenizing_thread import Tokenizing
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.token_texts import lacks_tokens
from llm_lite.core.handles import CANCELLED, SUPERSEDED, Handle, Outbox, Report, cancel
from llm_lite.core.loading.tokenizers import open_tokenizer
from llm_lite.core.messages import (
    NO_CHANGES,
    Alternative,
    CacheKept,
    CacheRewritten,
    CacheStatus,
    Cancel,
    CheckKept,
    Command,
    ConversationRead,
    CountTokens,
    DraftsLearned,
    Event,
    ExecutorChanged,
    ForgetLearnedDrafts,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Interventions,
    InterventionsSet,
    KeepConversation,
    KeptChecked,
    KeptResumed,
    LoadModel,
    LoadProgress,
    LoadStarted,
    Logged,
    MakeTitle,
    ModelInfo,
    ModelLoaded,
    PrefillProgress,
    PromptToken,
    Read,
    Reconfigure,
    ResumeKept,
    ServingChanged,
    SetInterventions,
    Shutdown,
    SpellTokens,
    StartServing,
    StepRequest,
    StopServing,
    Task,
    TextTokenized,
    Thinking,
    TitleMade,
    TokenDecoded,
    TokenizeText,
    TokensSpelled,
    Translate,
    Unfit,
)
from llm_lite.core.messages.interventions import Change, Replace
from llm_lite.core.questions.table import BY_REQUEST
from llm_lite.core.records import replace
from tests.desktop.engine import tasks
from tests.desktop.engine.answers import MORE, OTHER, answer_to, begun, pieces_of, steered, thinks
from tests.desktop.engine.attention import RandomSource
from tests.desktop.engine.cache import TokenCache, keep, kept_tokens
from tests.desktop.engine.encoding import as_encoder
from tests.desktop.engine.model import EXECUTOR, MODEL, PREFIXES, ROW
from tests.desktop.engine.questions import answer, is_question
from tests.desktop.engine.translating import whole
from tests.desktop.engine.vocabulary import SHARED, Cut, Vocabulary, count
from tools.tour.scenes.encoding import BUNDLED

if TYPE_CHECKING:
    from tests.server.scripted_service import ScriptedService

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "tokenizers"
DEFAULT = "smollm2-135m-instruct"
# What a test answers itself: an event, or all that comes before the end. RequestError where the
# command cannot be carried out.
Answers = Mapping[type[Command], Callable[[Any], Event | Iterable[Event]]]
Steps = Iterator[None]


class ScriptedEngine:
    """`delay`: seconds between two steps. `steps_per_poll`: so many steps each time the window
    polls instead, however long its frames take, so that what happens between two steps is seen.
    `by_hand`: there is no thread, and `step` is called. `said`: answers one after the other, the
    last one again and again, in place of what it writes by itself. `answers` come before its own.
    """

    def __init__(
        self,
        delay: float = 0.02,
        wake: Callable[[], None] | None = None,
        *,
        steps_per_poll: int = 0,
        by_hand: bool = False,
        said: Sequence[str] = (),
        answers: Answers | None = None,
        words: Vocabulary = SHARED,
        model: ModelInfo = MODEL,
    ) -> None:
        self.delay = delay
        self.commands: list[Command] = []  # that were sent
        self.answers = dict(answers or {})
        self.said = list(said)
        self.words = words
        self.cut: Cut = pieces_of
        self.cache = TokenCache()
        self.interventions = NO_CHANGES  # that are set
        self.aliases: Mapping[str, str] = {}  # of sites
        self.source: Any = None  # of attention maps
        self.executor, self.model = EXECUTOR, model
        self.encodes = False  # an encoder was loaded
        self.title: str | None = ""  # what it makes of a conversation; None: it is interrupted
        self.unfit: Unfit = ""  # what it says of files that are kept
        self.clients: ScriptedService | None = None  # who is served, while they are
        self.refuses_clients = ""  # why it serves nobody
        self.devices = list[object]()  # that it was given, the newest last
        self._is_serving = self._is_drawing = False
        self._reused = 0
        self._is_loaded = False
        self._outbox = Outbox(wake)
        self._tokenizing = Tokenizing()
        self._inbox: deque[Handle] = deque()
        self._new = threading.Condition()  # notified of commands
        self._open: list[Handle] = []
        self._newest: Handle | None = None  # change of the model
        self._handle: Handle | None = None  # of what is under way
        self._steps: Steps | None = None
        self._cut_short = threading.Event()  # what is under way is not wanted any more
        self._polled, self._taken = threading.Event(), 0
        self._steps_per_poll = steps_per_poll
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        if not by_hand:
            self._thread.start()

    # The interface of an engine

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
        if isinstance(command, Reconfigure):
            self._newest = handle
        self._open = [*(one for one in self._open if not one.is_over), handle]
        if isinstance(command, TokenizeText) and command.messages is None:
            source = command.source or str(FIXTURES / "qwen" / "tokenizer.json")
            self._tokenizing.submit(handle, replace(command, source=source), None)
            return handle
        with self._new:
            self._inbox.append(handle)
            self._new.notify_all()
        return handle

    def poll(self) -> list[Report]:
        reports = self._outbox.poll()
        self._polled.set()
        return reports

    def attention(self, part: object = None) -> Any:
        return self.source

    def service(self) -> ScriptedService | None:
        return self.clients if self._is_serving else None

    def coming(self) -> str:
        return ""

    def device_lost(self, device: object) -> None:
        self.devices.append(device)

    def frame(self, drawing: bool) -> None:
        assert drawing != self._is_drawing, "frames begin and end in turn"
        self._is_drawing = drawing

    def close(self, timeout: float = 2.0) -> bool:
        self.submit(Shutdown())
        if self._thread.is_alive():
            self._thread.join(timeout)
        if self.clients is not None:
            self.clients.close()
        return not self._thread.is_alive()

    # For tests

    def report(self, event: Event) -> None:
        """Report an event of the engine itself."""
        self._outbox.emit(event)

    @property
    def is_idle(self) -> bool:
        return all(handle.is_over for handle in self._open)

    def prompt(self, command: Any, answers: bool = False) -> list[PromptToken]:
        """Return how the conversation of a command is told."""
        is_open = command.continue_last if isinstance(command, Generate) else None
        raw = getattr(command, "raw", False)
        return self.words.prompt(
            command.messages, answers=answers, is_open=is_open, raw=raw, cut=self.cut
        )

    def step(self) -> bool:
        """Do a step of what is under way, or begin the next command; whether something still is."""
        if self._steps is not None:
            self._serve_waiting()
            self._go_on()
        elif self._inbox:
            self._begin(self._inbox.popleft())
        return self._steps is not None

    # Its work

    def _work(self) -> None:
        while not self._is_closed:
            with self._new:
                while not (self._inbox or self._steps):
                    self._new.wait()
            if self.step():
                self._rest()

    def _rest(self) -> None:
        if not self._steps_per_poll:
            self._cut_short.wait(self.delay)
            return
        self._taken += 1
        if self._taken % self._steps_per_poll == 0:
            self._polled.clear()
            while not self._polled.wait(0.01) and not self._cut_short.is_set():
                pass

    def _begin(self, handle: Handle) -> None:
        command = handle.command
        if isinstance(command, Shutdown):
            self._is_closed = True
            handle.end()
        elif handle.is_cancelled:
            handle.end(CANCELLED, unwanted=True)
        elif isinstance(command, StepRequest):
            self._serve(handle)
        else:
            self._handle, self._cut_short = handle, threading.Event()
            handle.on_cancel = self._cut_short.set
            self._steps = self._steps_of(handle, command)
            self._go_on()

    def _go_on(self) -> None:
        """Take a step of what is under way; behind the last one its handle ends."""
        assert self._steps is not None and self._handle is not None
        handle, problem = self._handle, ""
        try:
            next(self._steps)
            return
        except StopIteration:
            pass
        except RequestError as error:
            problem = str(error)
        except Exception as error:  # of a test's answer, which would wait without an end
            problem = f"{type(handle.command).__name__} failed: {error!r}"
        self._steps = None
        handle.end(problem)

    def _steps_of(self, handle: Handle, command: Command) -> Steps:
        if type(command) in self.answers:
            yield from self._answered(handle, command)
        elif type(command) in _COMMANDS:
            yield from _COMMANDS[type(command)](self, handle, command)
        elif isinstance(command, Task):
            yield from self._task(handle, command)
        else:
            raise RequestError(f"{type(command).__name__} is not for this engine")

    def _answered(self, handle: Handle, command: Command) -> Steps:
        found = self.answers[type(command)](command)
        for event in (found,) if isinstance(found, Event) else found:
            self._emit(handle, event)
            yield

    def _serve_waiting(self) -> None:
        """Serve requests between two steps."""
        with self._new:
            waiting = [one for one in self._inbox if isinstance(one.command, StepRequest)]
            for one in waiting:
                self._inbox.remove(one)
        for one in waiting:
            self._serve(one)

    def _serve(self, handle: Handle) -> None:
        command, problem = handle.command, ""
        assert isinstance(command, StepRequest)
        if type(command) in BY_REQUEST and not self.encodes:
            handle.of_tokens = self.cache.ids
        try:
            if type(command) in self.answers:
                for _ in self._answered(handle, command):
                    pass
            elif type(command) in _REQUESTS:
                _REQUESTS[type(command)](self, handle, command)
            elif is_question(command):
                handle.emit(self.answer(command))
            else:
                problem = f"{type(command).__name__} is not for this engine"
        except RequestError as error:
            problem = str(error)
        except Exception as error:
            problem = f"{type(command).__name__} failed: {error!r}"
        handle.end(problem)

    def _emit(self, handle: Handle, event: Event) -> None:
        if isinstance(event, CacheStatus | ServingChanged):
            self._outbox.emit(event)
        else:
            handle.emit(event)

    def _task(self, handle: Handle, command: Task) -> Steps:
        for event in tasks.events(command, self.executor):
            yield
            if handle.is_cancelled:
                handle.end("it was stopped", unwanted=True)
                return
            handle.emit(event)

    # Models

    def _load(self, handle: Handle, command: LoadModel) -> Steps:
        source = command.source or DEFAULT
        handle.emit(LoadStarted(source))
        if "missing" in source:
            raise RequestError(f"{source}: no such file")
        for step in range(11):
            handle.emit(LoadProgress("reading", step / 10))
            yield
            if handle.is_cancelled:
                handle.end("loading was cancelled", unwanted=True)
                return
        self._outbox.emit(Logged("info", f"{source}: loaded in 0.4 s", time.time()))
        self._outbox.emit(Logged("warning", EXECUTOR.reason, time.time()))
        self.encodes = source == BUNDLED
        self.interventions, self._is_loaded = NO_CHANGES, True
        model = self.load_model(command)
        self.cache.clear()
        self.cache.holder, self.cache.mode = 0, self.executor.mode
        self.source = self.make_source(model)
        handle.emit(ModelLoaded(model, self.executor, 0.42))
        handle.end()
        self.tell_cache()

    def load_model(self, command: LoadModel) -> ModelInfo:
        """Return the model that a command has loaded."""
        return as_encoder(self.model) if self.encodes else self.model

    def make_source(self, model: ModelInfo) -> Any:
        """Return what maps of attention are made of."""
        kv_heads = model.heads if model.embeds else model.kv_heads
        return RandomSource(layers=model.layers, heads=model.heads, kv_heads=kv_heads, context=1024)

    def _change(self, handle: Handle, command: Reconfigure) -> Steps:
        yield from ()
        if handle is not self._newest:
            handle.end("a newer change has taken its place", unwanted=True)
            return
        if not self._is_loaded:
            raise RequestError("no model is loaded: open one first")
        handle.emit(LoadStarted(self.model.path))
        handle.emit(LoadProgress("weights", 0.5))
        yield
        if handle is not self._newest:
            handle.end("a newer change has taken its place", unwanted=True)
            return
        if handle.is_cancelled:
            handle.end("the change was cancelled", unwanted=True)
            return
        self.executor = replace(self.executor, mode=command.options.mode)
        self._resize(command.options.context or self.model.trained_context)
        self.cache.switch(command.options.mode)
        self._has_changed()
        handle.emit(ExecutorChanged(self.executor, self.model, command.options))
        self.tell_cache()

    def _resize(self, context: int) -> None:
        """Take another context: what does not fit any more is no longer there."""
        if context != self.model.context:
            layers = tuple(replace(layer, rows=context) for layer in self.model.cache.layers)
            layout = replace(self.model.cache, layers=layers, reserved_bytes=0)
            self.model = replace(self.model, context=context, cache=layout)
        del self.cache[context:]

    # Answers

    def _answer(self, handle: Handle, command: Generate) -> Steps:
        started = time.monotonic()
        prompt = self.prompt(command, answers=True)
        own = command.interventions
        changes = self.interventions if own is None else self._named(own)
        reused = self.cache.take(prompt, command.conversation, changes, owned=own is not None)
        self._reused = reused
        self._has_changed()
        thinking = Thinking("think", inside=True) if thinks(command) else None
        handle.emit(GenerationStarted(len(prompt), reused, tuple(prompt), thinking))
        self.tell_cache()
        yield from self._prefill(handle, prompt, changes)
        first, written, reason = time.monotonic(), list[str](), "stopped"
        if not handle.is_cancelled:
            reason = yield from self._decode(handle, command, changes, written)
        stats = GenerationStats(
            prompt_tokens=len(prompt),
            reused_tokens=reused,
            new_tokens=len(written),
            prefill_tok_s=len(prompt) / max(first - started, 1e-3),
            decode_tok_s=len(written) / max(time.monotonic() - first, 1e-3),
            ttft_ms=(first - started) * 1e3,
            context_used=len(self.cache),
            peak_rss_bytes=412_000_000,
            read_bytes=100_000_000,
        )
        handle.emit(GenerationFinished(reason, self.measured(stats)))
        self.tell_cache()

    def _prefill(
        self, handle: Handle, prompt: Sequence[PromptToken], changes: Interventions
    ) -> Steps:
        """Read what the cache lacks, an eighth of it a step."""
        reused = len(self.cache)
        size = max(1, (len(prompt) - reused) // 8)
        while len(self.cache) < len(prompt) and not handle.is_cancelled:
            self.cache.put(prompt[len(self.cache) : len(self.cache) + size], changes)
            self._has_changed()
            handle.emit(PrefillProgress(len(self.cache), len(prompt)))
            yield

    def _decode(
        self, handle: Handle, command: Generate, changes: Interventions, written: list[str]
    ) -> Iterator[Any]:
        """Write the answer and append its texts; return why it ends."""
        owner = len(command.messages) - command.continue_last
        forced = [*self.words.spell(command.forced)]
        if command.begin is not None and not forced:
            forced = [*self.cut(begun(command.begin))]
        for number, text in enumerate((*forced, *self.write(command, len(forced)))):
            if handle.is_cancelled:
                return "stopped"
            if number - len(forced) >= command.sampling.max_new_tokens:
                return "length"
            if len(self.cache) >= self.model.context:
                if command.overflow == "stop":
                    return "context"
                forgotten = self.cache.forget(self.model.context)
                self._has_changed()
                tokens = tuple(held.token for held in self.cache)
                handle.emit(CacheRewritten(tokens, (forgotten,)))
            token = self.words.id(text)
            self.cache.put([PromptToken(token, text, owner)], changes)
            self._has_changed()
            written.append(text)
            event = TokenDecoded(token, text, math.nan, len(self.cache))
            if number >= len(forced) - 1:
                event = replace(
                    event,
                    probability=0.5,
                    alternatives=self.alternatives(token, text),
                    step_ms=self.step_ms(number),
                )
            handle.emit(event)
            yield
        return "end"

    def write(self, command: Generate, begun_with: int) -> Sequence[str]:
        """Return the texts of an answer's tokens, behind as many that it begins with."""
        if self.said:
            pieces = pieces_of(self.said.pop(0) if len(self.said) > 1 else self.said[0])
        elif command.begin is not None:
            return pieces_of(MORE)
        else:
            pieces = pieces_of(answer_to(command))
        return (steered(pieces) if command.interventions else pieces)[begun_with:]

    def answer(self, command: StepRequest) -> Event:
        """Return the answer to a question. RequestError where there is none."""
        return answer(self, command)

    def alternatives(self, token: int, text: str) -> tuple[Alternative, ...]:
        other = Alternative(self.words.id(OTHER), OTHER, 0.25)
        return Alternative(token, text, 0.5), other

    def step_ms(self, number: int) -> float:
        """Return what the step of a token took."""
        return 4.0 + number % 3

    def measured(self, stats: GenerationStats) -> GenerationStats:
        """Return the figures of an answer as they are told."""
        return stats

    def _read(self, handle: Handle, command: Read) -> Steps:
        prompt = self.prompt(command)
        reused = self.cache.take(
            prompt, command.conversation, self.interventions, afresh=command.afresh
        )
        self._reused = reused
        self._has_changed()
        if reused == len(prompt):
            handle.emit(PrefillProgress(reused, reused))
        yield from self._prefill(handle, prompt, self.interventions)
        handle.emit(ConversationRead(tuple(prompt[: len(self.cache)]), len(prompt)))
        self.tell_cache()

    def _has_changed(self) -> None:
        """Let the maps follow the cache."""
        if self.source is not None:
            self.source.follow(self.cache.ids)

    def tell_cache(self) -> None:
        saved = self._reused * ROW * 2 * len(self.model.cache.layers)
        used = sum(prefix.bytes for prefix in PREFIXES)
        length, context = len(self.cache), self.model.context
        self._outbox.emit(
            CacheStatus(length, context, self._reused, used, 256 << 20, PREFIXES, saved)
        )

    # Kept conversations, titles, clients

    def _keep(self, handle: Handle, command: KeepConversation) -> Steps:
        yield from ()
        if self.cache:
            keep(Path(command.path), self.cache, self.model.path)
            size = len(self.cache) * ROW * 60
            handle.emit(CacheKept(len(self.cache), size, "", 0.0, 0.0))

    def _check(self, handle: Handle, command: CheckKept) -> Steps:
        yield from ()
        tokens, unfit = self._kept(command)
        total, size = len(self.prompt(command)), Path(command.path).stat().st_size
        if unfit:
            handle.emit(KeptChecked(0, total, size, unfit, f"it is of no use: {unfit}"))
        else:
            handle.emit(KeptChecked(len(tokens), total, size))

    def _resume(self, handle: Handle, command: ResumeKept) -> Steps:
        yield from ()
        tokens, unfit = self._kept(command)
        if unfit:
            handle.emit(KeptResumed(unfit=unfit, problem=f"it is of no use: {unfit}"))
            return
        self.cache.clear()
        self.cache.put(tokens, self.interventions, queried=False)
        self.cache.holder = command.conversation
        self._has_changed()
        prompt = self.prompt(command)
        is_cut = lacks_tokens(prompt, len(tokens), command.messages)
        handle.emit(KeptResumed(tuple(tokens), len(prompt), 0.05, is_cut=is_cut))
        self.tell_cache()

    def _kept(self, command: CheckKept | ResumeKept) -> tuple[list[PromptToken], str]:
        """Return what a kept file has of a conversation, or why it is of no use."""
        prompt = self.prompt(command)
        made_by = self.model.path, self.cache.mode, self.interventions
        tokens, unfit = kept_tokens(Path(command.path), prompt, *made_by)
        return tokens, unfit or self.unfit

    def _entitle(self, handle: Handle, command: MakeTitle) -> Steps:
        yield from ()
        if self.title is None:
            handle.end(SUPERSEDED, unwanted=True)
        else:
            handle.emit(TitleMade(self.title))

    def _start_serving(self, handle: Handle, command: StartServing) -> Steps:
        yield from ()
        self._is_serving = self.clients is not None and not self.refuses_clients
        if self.clients is not None:
            status = self.clients.status()
            self.report(ServingChanged(self._is_serving, status, self.refuses_clients))

    def _stop_serving(self, handle: Handle, command: StopServing) -> Steps:
        yield from ()
        self._is_serving = False
        self.report(ServingChanged(False))

    # Texts

    def _spell(self, handle: Handle, command: SpellTokens) -> Steps:
        yield from ()
        handle.emit(TokensSpelled(self.words.spell(command.tokens)))

    def _count(self, handle: Handle, command: CountTokens) -> None:
        handle.emit(count(command, self.words, self.cut))

    def _tokenize(self, handle: Handle, command: TokenizeText) -> Steps:
        """A conversation as if there were no template, by a small tokenizer."""
        yield from ()
        source = command.source or str(FIXTURES / "qwen" / "tokenizer.json")
        told = open_tokenizer(source).stages(command.text, False)
        handle.emit(TextTokenized(replace(told, typed=((0, len(command.text)),))))

    def _translate(self, handle: Handle, command: Translate) -> Steps:
        for event in whole(command):
            self._emit(handle, event)
            yield

    def _forget_learned(self, handle: Handle, command: ForgetLearnedDrafts) -> Steps:
        yield from ()
        self.report(DraftsLearned(0, 0, 0))

    def _set_interventions(self, handle: Handle, command: SetInterventions) -> None:
        try:
            self.interventions = self._named(command.interventions)
        finally:
            handle.emit(InterventionsSet(self.interventions))

    def _named(self, interventions: Interventions) -> Interventions:
        """Return interventions with the names that their sites have here. RequestError where one
        cannot act while the model writes."""
        named = list[Change]()
        for number, change in enumerate(interventions.changes):
            if isinstance(change, Replace):
                raise RequestError(
                    f"changes[{number}]: rows are put in place where tokens run again"
                )
            named.append(replace(change, site=self.aliases.get(change.site, change.site)))
        return replace(interventions, changes=tuple(named))


_COMMANDS: Mapping[type[Command], Callable[[ScriptedEngine, Handle, Any], Steps]] = (
    MappingProxyType(
        {
            LoadModel: ScriptedEngine._load,
            Reconfigure: ScriptedEngine._change,
            Generate: ScriptedEngine._answer,
            Read: ScriptedEngine._read,
            Translate: ScriptedEngine._translate,
            SpellTokens: ScriptedEngine._spell,
            TokenizeText: ScriptedEngine._tokenize,
            KeepConversation: ScriptedEngine._keep,
            CheckKept: ScriptedEngine._check,
            ResumeKept: ScriptedEngine._resume,
            ForgetLearnedDrafts: ScriptedEngine._forget_learned,
            MakeTitle: ScriptedEngine._entitle,
            StartServing: ScriptedEngine._start_serving,
            StopServing: ScriptedEngine._stop_serving,
        }
    )
)
_REQUESTS: Mapping[type[StepRequest], Callable[[ScriptedEngine, Handle, Any], None]] = (
    MappingProxyType(
        {
            SetInterventions: ScriptedEngine._set_interventions,
            CountTokens: ScriptedEngine._count,
        }
    )
)
