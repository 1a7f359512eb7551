"""An engine without a model or threads. All that it tells is stamped with the conversation that it
was computed from: words hold its tag, numbers are STAMP - tag."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llm_lite.core.handles import CANCELLED, SUPERSEDED, Handle, Report, cancel
from llm_lite.core.messages import (
    NO_CHANGES,
    Alternative,
    AttentionRows,
    CacheKept,
    CacheMeasured,
    CacheStatus,
    Cancel,
    CheckKept,
    ConversationRead,
    CountTokens,
    EffectRead,
    ExecutorChanged,
    FollowToken,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Inspect,
    Interventions,
    InterventionsSet,
    KeepConversation,
    KeptChecked,
    KeptResumed,
    LensResult,
    LensRow,
    LoadModel,
    LoadStarted,
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
    SetInterventions,
    SpellTokens,
    TokenDecoded,
    TokensCounted,
    TokensSpelled,
)
from llm_lite.core.messages.interventions import Replace
from llm_lite.core.questions.table import BY_REQUEST
from llm_lite.core.records import replace
from tests.desktop.fake_model import EXECUTOR, MODEL

STAMP = -1_000_000.0
FAST = 7e9  # of what must be above 0, and is no time
SMALL = replace(MODEL, layers=2, heads=3, kv_heads=1, path="/models/one.gguf", name="One")
OTHER = replace(SMALL, path="/models/other.gguf", name="Other")
MODELS = {SMALL.path: SMALL, OTHER.path: OTHER}
END = "layers.1.feed_forward.residual"
NAMES = {"blocks.1.hook_resid_post": END}  # names of sites that others have
REFUSED = "rows are put in place where tokens run again"
LONGEST = 14  # words of an answer


class Words:
    """The vocabulary: a number for each word that was ever met."""

    def __init__(self):
        self.ids, self.texts = {}, []

    def id(self, text):
        if text not in self.ids:
            self.ids[text] = len(self.texts)
            self.texts.append(text)
        return self.ids[text]


@dataclass(slots=True)
class Held:
    """A position of the cache."""

    token: PromptToken
    changes: Interventions
    queried: bool = True  # its queries are kept: this executor computed it


@dataclass(slots=True)
class Served:
    """What a question was answered of."""

    question: object  # kept, so that its id stays its own
    texts: tuple[str, ...]  # of the tokens in the cache
    changes: Interventions
    mode: str


class ScriptedEngine:
    """Commands are taken up by `poll`, a few steps each time. `tag_of` says which conversation has
    a number of the history."""

    def __init__(self, rng, tag_of, words):
        self.rng, self.tag_of, self.words = rng, tag_of, words
        self.model = None
        self.mode = "as-stored"
        self.changes = NO_CHANGES
        self.cache: list[Held] = []
        self.holder = 0  # the number of the conversation in the cache
        self.version = 0  # of the cache, for maps
        self.answers = []  # (conversation, interventions in force) of each answer that began
        self._inbox, self._reports = deque(), deque()
        self._handle = None  # of what is under way, or served
        self._steps: Iterator[None] = iter(())
        self._open = []  # handles that have not ended
        self._newest = None  # change of the model
        self.files = {}  # kept caches, by path
        self.served = {}  # by the id of a question: what it was answered of

    # The face of an engine

    def submit(self, command):
        handle = Handle(command, self._reports.append)
        self._open = [one for one in self._open if not one.is_over]
        if isinstance(command, Cancel):
            cancel(self._open, command)
            handle.end()
            return handle
        if isinstance(command, Reconfigure):
            self._newest = handle
        self._open.append(handle)
        self._inbox.append(handle)
        return handle

    def poll(self):
        reports, waiting = list(self._reports), len(self._reports)
        for _ in range(self.rng.randrange(4)):  # what these bring is heard the next time
            self.step()
        for _ in range(waiting):
            self._reports.popleft()
        return reports

    def attention(self, part=None):
        return self

    def service(self):
        return None

    def close(self, timeout=2.0):
        return True

    # What maps are made of

    layers, epoch, bias = (), 0, None

    def tokens(self):
        return tuple(self.words.id(held.token.text) for held in self.cache)

    def source_tokens(self):
        return ()

    @property
    def length(self):
        return len(self.cache)

    @property
    def rows(self):
        first = len(self.cache)
        while first and self.cache[first - 1].queried:
            first -= 1
        return range(first, len(self.cache))

    # Its work, a step at a time

    @property
    def idle(self):
        return not self._inbox and not self._reports and not self._working

    @property
    def _working(self):
        return getattr(self, "_busy", False)

    def step(self):
        """One step of what is under way, or the next command. Requests are served between two."""
        if self._working:
            self._serve_requests()
            if next(self._steps, "over") == "over":
                self._busy = False
                self._handle.end()
        elif self._inbox:
            handle = self._inbox.popleft()
            if handle.is_cancelled:
                handle.end(CANCELLED, unwanted=True)
            elif isinstance(handle.command, _SERVED):
                self._serve(handle, handle.command)
            else:
                self._handle = handle
                self._steps, self._busy = self._work(handle, handle.command), True

    def _serve_requests(self):
        waiting = [one for one in self._inbox if isinstance(one.command, _SERVED)]
        for one in waiting:
            self._inbox.remove(one)
            self._serve(one, one.command)

    def _work(self, handle, command):
        match command:
            case LoadModel():
                yield from self._load(handle, command)
            case Reconfigure():
                yield from self._change(handle, command)
            case Generate():
                yield from self._answer(handle, command)
            case Read():
                yield from self._read(handle, command)
            case KeepConversation():
                self._keep(command)
            case CheckKept():
                self._check(command)
            case ResumeKept():
                self._resume(command)
            case MakeTitle():
                handle.end(SUPERSEDED, unwanted=True)
            case _:
                self._serve(handle, command)
        yield

    def _load(self, handle, command):
        source = command.source or SMALL.path
        self._say(LoadStarted(source))
        yield
        yield
        if handle.is_cancelled:
            handle.end("cancelled", unwanted=True)
            return
        self.model, self.changes, self.mode = MODELS[source], NO_CHANGES, command.options.mode
        self.cache, self.holder = [], 0
        self._changed()
        self._say(ModelLoaded(self.model, self._executor(), 0.1))
        self._tell_cache()

    def _change(self, handle, command):
        yield
        if handle is not self._newest:
            return
        self._say(LoadStarted(self.model.path if self.model else ""))
        yield
        yield
        if handle is not self._newest:
            return
        if handle.is_cancelled or self.model is None:
            handle.end("cancelled", unwanted=True)
            return
        self.mode = command.options.mode
        self.cache = [Held(held.token, held.changes, False) for held in self.cache]
        self._changed()
        self._say(ExecutorChanged(self._executor(), self.model, command.options))
        self._tell_cache()

    def _executor(self):
        return replace(EXECUTOR, mode=self.mode)

    def _answer(self, handle, command):
        open_answer = command.continue_last
        prompt = self.prompt(command.messages, open_answer, answers=True, raw=command.raw)
        own = command.interventions
        changes = self.changes if own is None else own
        if own is None:
            self.answers.append((command.conversation, changes))
        reused = self._take(prompt, command.conversation, changes, owned=own is not None)
        yield
        started = GenerationStarted(len(prompt), reused, tuple(prompt))
        self._say(started)
        self._tell_cache()
        for token in prompt[reused:]:
            self.cache.append(Held(token, changes))
        self._changed()
        yield
        self._say(PrefillProgress(len(prompt), len(prompt)))
        tag, owner = self.tag(), len(command.messages) - open_answer
        forced = [self.words.texts[number] for number in command.forced]
        said, reason = 0, "end"
        for at in range(len(forced) + self.rng.randrange(1, LONGEST)):
            yield
            if handle.is_cancelled:
                reason = "stopped"
                break
            text = forced[at] if at < len(forced) else f"c{tag}a{self.rng.randrange(1000)} "
            token = self.words.id(text)
            best = (
                Alternative(token, text, 0.5),
                Alternative(self.words.id(f"c{tag}b "), f"c{tag}b ", 0.25),
            )
            self.cache.append(Held(PromptToken(token, text, owner), changes))
            self._changed()
            used, took = len(self.cache), STAMP - tag
            self._say(TokenDecoded(token, text, 0.5, used, best, took))
            said += 1
        stats = GenerationStats(
            prompt_tokens=len(prompt),
            reused_tokens=reused,
            new_tokens=said,
            decode_tok_s=FAST + tag,
            prefill_tok_s=STAMP - tag,
            ttft_ms=STAMP - tag,
            context_used=len(self.cache),
        )
        self._say(GenerationFinished(reason, stats))
        self._tell_cache()

    def _read(self, handle, command):
        prompt = self.prompt(command.messages, is_open(command.messages), raw=command.raw)
        reused = self._take(prompt, command.conversation, self.changes, afresh=command.afresh)
        self._say(PrefillProgress(reused, len(prompt)))
        for token in prompt[reused:]:
            if handle.is_cancelled:
                break
            self.cache.append(Held(token, self.changes))
        self._changed()
        yield
        self._say(ConversationRead(tuple(prompt[: len(self.cache)])))
        self._tell_cache()

    def prompt(self, messages, open_answer, answers=False, raw=False):
        """A token before each message and one behind it, but for an answer that is left open; none
        where the messages are one text."""
        found = []
        for index, message in enumerate(messages):
            if not raw:
                found.append(PromptToken(self.words.id("<start>"), "<start>", -1))
            texts = [self.words.texts[number] for number in message.tokens]
            texts = texts or [f"{word} " for word in message.content.split()]
            found += [PromptToken(self.words.id(text), text, index) for text in texts]
            if not (raw or (open_answer and index == len(messages) - 1)):
                found.append(PromptToken(self.words.id("<end>"), "<end>", -1))
        if answers and not open_answer and not raw:
            found.append(PromptToken(self.words.id("<start>"), "<start>", -1))
        return found

    def texts(self, messages, raw=False):
        """What a conversation is in the cache, token by token."""
        return tuple(one.text for one in self.prompt(messages, is_open(messages), raw=raw))

    def _take(self, prompt, conversation, changes, *, owned=False, afresh=False):
        """Keep what the cache shares with a prompt: of another conversation, what was made with
        these interventions."""
        strict = owned or conversation != self.holder
        kept = 0
        for held, token in zip(self.cache, prompt[:-1], strict=False):
            if held.token.text != token.text or (strict and held.changes != changes) or afresh:
                break
            kept += 1
        pairs = zip(self.cache[:kept], prompt, strict=False)
        self.cache = [Held(token, held.changes, held.queried) for held, token in pairs]
        self.holder = conversation
        self._changed()
        return kept

    def tag(self):
        return self.tag_of(self.holder)

    def _keep(self, command):
        if self.cache:
            texts = tuple(held.token.text for held in self.cache)
            self.files[command.path] = (self.model, self.cache[0].changes, texts)
            path = Path(command.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("kept")
            self._say(CacheKept(len(texts), 100, "", 0.0, 0.0))

    def _fitting(self, command):
        """What of a kept file is the beginning of the conversation."""
        model, changes, texts = self.files.get(command.path, (None, None, ()))
        if model is not self.model or changes != self.changes:
            return []
        prompt, found = self.prompt(command.messages, is_open(command.messages)), []
        for token, text in zip(prompt, texts, strict=False):
            if token.text != text:
                break
            found.append(token)
        return found

    def _check(self, command):
        found = self._fitting(command)
        total = len(self.texts(command.messages))
        unfit = "" if found else "beginning"
        self._say(KeptChecked(len(found), total, 100, unfit, unfit))

    def _resume(self, command):
        found = self._fitting(command)
        if not found:
            self._say(KeptResumed(unfit="beginning", problem="other"))
            return
        self.cache = [Held(token, self.changes, False) for token in found]
        self.holder = command.conversation
        self._changed()
        total = len(self.texts(command.messages))
        self._say(KeptResumed(tuple(found), total, 0.1))
        self._tell_cache()

    def _serve(self, handle, command):
        tag, texts = self.tag(), tuple(held.token.text for held in self.cache)
        if isinstance(command, QUESTIONS):
            handle.of_tokens = self.tokens()
        self.served[id(command)] = Served(command, texts, self.changes, self.mode)
        match command:
            case SetInterventions(wanted):
                if any(isinstance(one, Replace) for one in wanted.changes):
                    handle.end(REFUSED)
                    return
                named = (replace(one, site=NAMES.get(one.site, one.site)) for one in wanted.changes)
                self.changes = replace(wanted, changes=tuple(named))
                handle.emit(InterventionsSet(self.changes))
            case ReadEffect():
                handle.emit(EffectRead(STAMP - tag))
            case Inspect(position):
                rows = tuple(
                    LensRow(layer, (Alternative(0, f"c{tag}lens", 0.5),)) for layer in range(2)
                )
                handle.emit(LensResult(position, rows))
            case ReadAttentionRows():
                weights = (STAMP - tag,) * (command.position + 1)
                handle.emit(AttentionRows(command.position, command.direction, weights))
            case MeasureCache():
                many = command.last - command.first
                values = ((STAMP - tag,) * many,) * len(self.model.cache.layers)
                handle.emit(CacheMeasured(command.what, command.first, 1, values))
            case ReadStates():
                handle.end(f"c{tag}states")
            case FollowToken():
                handle.end(f"c{tag}trace")
            case CountTokens():
                prompt = self.prompt(command.messages, is_open(command.messages), raw=command.raw)
                ids = tuple(token.id for token in prompt)
                many = tuple(len(text) // 4 + 1 for text in command.texts)
                kept = tuple(map(len, command.texts))
                told = len(ids) if command.messages else None
                handle.emit(TokensCounted(many, kept, conversation=told, ids=ids))
            case SpellTokens(tokens):
                texts = tuple(self.words.texts[number] for number in tokens)
                handle.emit(TokensSpelled(texts))
        handle.end()

    def _tell_cache(self):
        context = self.model.context if self.model else 0
        status = CacheStatus(len(self.cache), context, 0, 0, 1 << 20, (), 0)
        self._reports.append(Report(status))

    def _changed(self):
        self.version += 1

    def _say(self, event):
        self._handle.emit(event)


QUESTIONS = tuple(BY_REQUEST)
_LOOKS = (Inspect, ReadAttentionRows, ReadStates, MeasureCache, FollowToken)
_SERVED = (SetInterventions, ReadEffect, CountTokens, *_LOOKS)


def is_open(messages):
    last = messages[-1] if messages else None
    return last is not None and last.role == "assistant" and bool(last.content)
