"""Every event that an engine can say, with other text in it than it has."""

from __future__ import annotations

import builtins
import time
import types
import typing
from types import MappingProxyType, NoneType
from typing import Literal, get_args, get_origin, get_type_hints

from msgspec import Struct

from llm_lite.core.messages import (
    AnalyzeTensors,
    CacheKept,
    CacheRewritten,
    ChatMessage,
    CompareGains,
    CompareRuns,
    CompareTexts,
    CountTokens,
    DraftsLearned,
    DropVariant,
    EncodeText,
    EngineOptions,
    Event,
    ExecutorChanged,
    FileDamaged,
    FollowToken,
    Generate,
    GenerationFinished,
    GenerationStats,
    Inspect,
    KeepVariant,
    KeptChecked,
    KeptResumed,
    LoadModel,
    LoadNeedsMemory,
    MapsExported,
    MeasureCache,
    MeasureDivergence,
    MeasureModes,
    OtherTarget,
    ProfileStep,
    PromptToken,
    Read,
    ReadAttentionRows,
    Reconfigure,
    ServedRequest,
    ServingChanged,
    ServingStatus,
    SourceRead,
    SourceToken,
    SpellTokens,
    StudyKernels,
    TargetFinished,
    TargetGrown,
    TargetToken,
    TextTokenized,
    TitleMade,
    TokenizeText,
)
from llm_lite.core.messages.library import Fit, MemoryPart
from llm_lite.core.records import replace
from llm_lite.desktop.features.encoder.state import CompareRequest, EncodeRequest
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState, Message, Running
from llm_lite.desktop.features.program.state import Reading as ReadingBack
from llm_lite.desktop.features.quantization.state import RunComparison, Work
from llm_lite.desktop.features.tokenizer.state import Answer
from tests.desktop.fake_engine import FakeEngine

SAYS = (ChatMessage("user", "why is it so?"),)
OPTIONS = EngineOptions()
PART = MemoryPart("weights", 1, 0)
FIT = Fit("int4", 4096, "cpu", (PART,), 0, None, None, "mode int4 (3.0 GiB) fits")
COMMANDS = (
    LoadModel("a missing one"),
    LoadModel(None),
    Generate(1, SAYS),
    Read(1, SAYS),
    SpellTokens(1, (1, 2)),
    ReadAttentionRows(1, 3, "from", "heads", ((0, 0),)),
    Inspect(3, 1),
    FollowToken(1, 7, 0, 0),
    MeasureCache(1, "key-norm", 0, 8),
    CompareGains(1),
    CountTokens(1, ("a text", "another")),
    TokenizeText(1, "an unbelievable text"),
    EncodeText(1, "the [MASK] sat", fills=True),
    CompareTexts(1, ("a text", "another")),
    CompareRuns(1, SAYS, (OPTIONS, replace(OPTIONS, mode="int4"))),
    MeasureDivergence(1, "", OPTIONS, OPTIONS),
    MeasureModes(1, OPTIONS),
    ProfileStep(1, 1),
    StudyKernels(1, "vulkan"),
    AnalyzeTensors(1, "int4"),
    KeepVariant(1, "int4"),
    DropVariant(1, "int4"),
    Reconfigure(OPTIONS),
)
ASKED, TEXTS = EncodeRequest("fill", EncodeText(0, "a", fills=True)), CompareRequest(("a", "b"))
SERVED = ServedRequest(1, "chatcmpl-1", "127.0.0.1 editor", False, 9, 9, 3, 0.5)
NEVER_SAID = (  # by the fake engine on its own
    FileDamaged("model.safetensors: tensor output.weight is damaged"),
    LoadNeedsMemory("large.gguf", OPTIONS, False, FIT, (FIT,)),
    MapsExported(1, "/tmp/maps.npz"),
    MapsExported(1, "/tmp/maps.npz", "the disk is full"),
    CacheRewritten(1, tuple(PromptToken(3, f"w{n}", 0) for n in range(9)), ((2, 5),)),
    GenerationFinished(1, "error", GenerationStats(), "the context is full"),
    CacheKept(7, "/tmp/7.kv", 40, 4096, "abc", 0.01, 0.1, "the disk is full"),
    KeptChecked(7, "/tmp/7.kv", 40, 50, 4096, "damaged", "is truncated"),
    KeptResumed(1, 7, "/tmp/7.kv", (PromptToken(3, "w", 0),), 50, 0.1, "damaged", "is truncated"),
    DraftsLearned(3, 400, 1 << 20),
    TitleMade(7, "The sky"),
    SourceRead(1, (SourceToken(5, "why"), SourceToken(1, "</s>", True)), "<pad>"),
    TargetGrown(1, (5, 6), ("pour", "quoi")),
    TargetFinished(1, (TargetToken(5, "pour", 0.5),), "pour", -1.0, (OtherTarget("par", -2.0),)),
    TargetFinished(1, problem="the source is too long"),
    ServingChanged(True, ServingStatus("a model", requests=(SERVED,))),
    ServingChanged(False, problem="there is too little memory"),
)


def sample_events() -> list[Event]:
    """At least one of each kind, in an order that an engine could say them in."""
    engine, heard = FakeEngine(0.0), []
    for command in COMMANDS:
        engine.send(command)
    last = {ExecutorChanged, TextTokenized}  # the last command's, and that of a thread of its own
    while not last <= {type(event) for event in heard}:
        heard += engine.poll()
        time.sleep(0.01)
    engine.close(20.0)
    heard += NEVER_SAID
    unheard = set(Event.__subclasses__()) - {type(event) for event in heard}
    return [*heard, *map(sample, unheard)]


def sample(kind):
    """Some value of a type, with a text wherever one may be."""
    options = get_args(kind)
    match get_origin(kind):
        case typing.Literal:
            return options[0]
        case typing.Annotated | typing.Union | types.UnionType:
            return sample(options[0])
        case builtins.tuple:
            return tuple(sample(one) for one in options if one is not ...)
    if issubclass(kind, Struct):
        hints = get_type_hints(kind)
        return kind(**{name: sample(hints[name]) for name in kind.__struct_fields__})
    return {str: "a text", bool: True, int: 1, float: 0.5, NoneType: None}[kind]


def with_text(value, text):
    """`value` with text() in place of every string that is not one of a few that are listed: found
    by the annotations of its record, whatever that holds."""
    hints = get_type_hints(type(value))
    changed = {n: _other(getattr(value, n), hints[n], text) for n in value.__struct_fields__}
    return replace(value, **changed)


def _other(value, kind, text):
    if get_origin(kind) is Literal or value is None:
        return value
    if isinstance(value, str):
        return text()
    if isinstance(value, Struct):
        return with_text(value, text)
    if isinstance(value, tuple):
        inner = get_args(kind)
        each = inner[:1] * len(value) if inner[1:] == (...,) else inner
        return tuple(_other(*pair, text) for pair in zip(value, each, strict=True))
    if isinstance(value, MappingProxyType):
        of_key, of_value = get_args(kind)
        pairs = ((_other(k, of_key, text), _other(v, of_value, text)) for k, v in value.items())
        return MappingProxyType(dict(pairs))
    return value


def expecting(state: AppState) -> AppState:
    """`state` as it is when request 1 of every kind is under way."""
    return replace(
        state,
        messages=state.messages or (Message("user", "why is it so?"),),
        running=Running(1, time.monotonic()),
        rows_request=1,
        lens=replace(state.lens, request=1),
        lesson=replace(state.lesson, request=1),
        steering=replace(state.steering, request=1),
        encoding=replace(
            state.encoding, request=1, texts_request=1, encode_request=ASKED, compare_request=TEXTS
        ),
        tokenizer=replace(
            state.tokenizer, answers=(replace(state.tokenizer.answers[0], request=1), Answer())
        ),
        translating=replace(state.translating, request=1),
        cache=replace(state.cache, request=1),
        quantization=replace(
            state.quantization,
            work=Work(1, "runs"),
            comparison=state.quantization.comparison or RunComparison(1, "why", (OPTIONS, OPTIONS)),
        ),
    )


def after(events, state: AppState) -> AppState:
    for event in events:
        waiting = expecting(state)
        if type(event).__name__ == "ConversationRead":
            waiting = replace(waiting, running=None, reading=ReadingBack(1))
        state = apply(event, waiting, time.monotonic())
    return replace(state, running=None)
