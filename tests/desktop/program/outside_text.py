"""Every event that an engine can say, with other text in it than it has."""

from __future__ import annotations

import builtins
import time
import types
import typing
from collections.abc import Callable
from types import MappingProxyType, NoneType
from typing import Literal, get_args, get_origin, get_type_hints

from msgspec import Struct

from llm_lite.core.handles import Report
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    AnalyzeTensors,
    CacheKept,
    CacheRewritten,
    ChatMessage,
    CheckKept,
    Command,
    CompareRuns,
    CompareTexts,
    CountTokens,
    DraftsLearned,
    DropVariant,
    EncodeText,
    Ended,
    EngineOptions,
    ExecutorChanged,
    ExportMaps,
    FileDamaged,
    FollowToken,
    Generate,
    GenerationFinished,
    GenerationStats,
    Inspect,
    KeepConversation,
    KeepVariant,
    KeptChecked,
    KeptResumed,
    LoadModel,
    LoadNeedsMemory,
    MakeTitle,
    MapsExported,
    MeasureCache,
    MeasureDivergence,
    MeasureModes,
    OtherTarget,
    ProfileStep,
    PromptToken,
    Read,
    ReadAttentionRows,
    ReadEffect,
    Reconfigure,
    ResumeKept,
    ServedRequest,
    ServingChanged,
    ServingStatus,
    SourceRead,
    SourceToken,
    SpellTokens,
    StartServing,
    StudyKernels,
    TargetFinished,
    TargetGrown,
    TargetToken,
    TextTokenized,
    TitleMade,
    TokenizeText,
    Translate,
)
from llm_lite.core.messages.library import Fit, MemoryPart
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.apply import EVENTS, apply
from llm_lite.desktop.features.program.asked import Asked, Exchange
from llm_lite.desktop.features.program.state import AppState, Message, Running
from llm_lite.desktop.features.program.state import Reading as ReadingBack
from llm_lite.desktop.features.quantization.state import RunComparison, Work
from llm_lite.desktop.features.registry import FEATURES
from llm_lite.desktop.features.resume.state import Offer
from tests.desktop.engine.engine import ScriptedEngine

SAYS = (ChatMessage("user", "why is it so?"),)
OPTIONS = EngineOptions()
PART = MemoryPart("weights", 1, 0)
FIT = Fit("int4", 4096, "cpu", (PART,), 0, None, None, "mode int4 (3.0 GiB) fits")
COMMANDS = (
    LoadModel("a missing one"),
    LoadModel(None),
    Generate(SAYS),
    Read(SAYS),
    SpellTokens((1, 2)),
    ReadAttentionRows(3, "from", "heads", ((0, 0),)),
    Inspect(3),
    FollowToken(7, 0, 0),
    MeasureCache("key-norm", 0, 8),
    ReadEffect(),
    CountTokens(("a text", "another")),
    TokenizeText("an unbelievable text"),
    EncodeText("the [MASK] sat", fills=True),
    CompareTexts(("a text", "another")),
    CompareRuns(SAYS, (OPTIONS, replace(OPTIONS, mode="int4"))),
    MeasureDivergence("", OPTIONS, OPTIONS),
    MeasureModes(OPTIONS),
    ProfileStep(1),
    StudyKernels("vulkan"),
    AnalyzeTensors("int4"),
    KeepVariant("int4"),
    DropVariant("int4"),
    Reconfigure(OPTIONS),
)
KEPT = (7, "/caches/7.kv", SAYS)
ANSWERED, RESUMED, TARGET = Generate(SAYS), ResumeKept(*KEPT), Translate("why")
SERVED = ServedRequest(1, "chatcmpl-1", "127.0.0.1 editor", False, 9, 9, 3, 0.5)
NEVER_SAID = (  # by the scripted engine on its own
    FileDamaged("model.safetensors: tensor output.weight is damaged"),
    LoadNeedsMemory("large.gguf", OPTIONS, False, FIT, (FIT,)),
    DraftsLearned(3, 400, 1 << 20),
    ServingChanged(True, ServingStatus("a model", requests=(SERVED,))),
    ServingChanged(False, problem="there is too little memory"),
)
NEVER_REPLIED = (
    (CacheRewritten(tuple(PromptToken(3, f"w{n}", 0) for n in range(9)), ((2, 5),)), ANSWERED),
    (GenerationFinished("context", GenerationStats(), "the context is full"), ANSWERED),
    (CacheKept(40, 4096, "abc", 0.01, 0.1), KeepConversation(7, KEPT[1], 1 << 20)),
    (Ended("the disk is full"), KeepConversation(7, KEPT[1], 1 << 20)),
    (KeptChecked(40, 50, 4096, "damaged", "is truncated"), CheckKept(*KEPT)),
    (KeptResumed((PromptToken(3, "w", 0),), 50, 0.1, "damaged", "is truncated"), RESUMED),
    (KeptResumed((PromptToken(3, "w", 0),), 50, 0.1), RESUMED),
    (TitleMade("The sky"), MakeTitle(7, SAYS)),
    (SourceRead((SourceToken(5, "why"), SourceToken(1, "</s>", True)), "<pad>"), TARGET),
    (TargetGrown((5, 6), ("pour", "quoi")), TARGET),
    (
        TargetFinished((TargetToken(5, "pour", 0.5),), "pour", -1.0, (OtherTarget("par", -2.0),)),
        TARGET,
    ),
    (Ended("the source is too long"), TARGET),
    (Ended("no model is loaded"), StartServing()),
)


def sample_reports() -> list[Report]:
    """At least one of each kind of event, in an order that an engine could send them in."""
    engine, heard = ScriptedEngine(0.0), list[Report]()
    for command in COMMANDS:
        engine.submit(command)
    last = {ExecutorChanged, TextTokenized}  # the last command's, and that of a thread of its own
    while not last <= {type(report.event) for report in heard}:
        heard += engine.poll()
        time.sleep(0.01)
    engine.close(20.0)
    heard += map(Report, NEVER_SAID)
    heard += [Report(event, command) for event, command in NEVER_REPLIED]
    heard += [Report(Ended("the disk is full"), command) for command in COMMANDS]
    export = ExportMaps("/tmp/maps.npz", ((0, 0),))
    heard += [Report(MapsExported(export.path), export), Report(Ended("it is full"), export)]
    unheard = set(EVENTS) - {type(report.event) for report in heard}
    return [*heard, *(Report(sample(kind)) for kind in unheard)]


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
        while get_origin(kind) is not tuple:  # what is left out where there is none
            kind = next(one for one in get_args(kind) if get_origin(one) or get_args(one))
        inner = get_args(kind)
        each = inner[:1] * len(value) if inner[1:] == (...,) else inner
        return tuple(_other(*pair, text) for pair in zip(value, each, strict=True))
    if isinstance(value, MappingProxyType):
        of_key, of_value = get_args(kind)
        pairs = ((_other(k, of_key, text), _other(v, of_value, text)) for k, v in value.items())
        return MappingProxyType(dict(pairs))
    return value


def told(reports: list[Report], text: Callable[[], str]) -> list[Report]:
    """The reports with text() in place of every string of their events."""
    return [Report(with_text(report.event, text), report.command) for report in reports]


def expecting(state: AppState, asked: Command | None) -> AppState:
    """`state` as it is when the command is under way, of whatever kind it is."""
    return replace(
        state,
        tree=ConversationTree(state.messages or (Message("user", "why is it so?"),)),
        running=Running(asked, time.monotonic()),
        reading=ReadingBack(asked),
        resume=replace(state.resume, offer=Offer(*KEPT[:2])),
        serving=replace(state.serving, phase="on", asked=asked),
        asks={
            slot: Exchange(waiting=Asked(asked, slot.stamp(state)))
            for feature in FEATURES
            for slot in feature.asks
            if isinstance(asked, slot.question)
        },
        translating=replace(state.translating, writing=asked),
        quantization=replace(
            state.quantization,
            work=Work(asked, "runs"),
            comparison=state.quantization.comparison or RunComparison("why", (OPTIONS, OPTIONS)),
        ),
    )


def after(reports: list[Report], state: AppState) -> AppState:
    for report in reports:
        waiting = expecting(state, report.command)
        state = apply(report.event, waiting, time.monotonic(), report.command)
    return replace(state, running=None, reading=None)
