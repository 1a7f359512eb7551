"""The commands and events of the engine: frozen records, nothing else.

Commands go in, events come out. The engine keeps no conversation: each `Generate` carries the whole
of it, and the session reuses what its cache already holds, so edits, branches and regenerations
need no messages of their own. Times are in seconds, sizes in bytes, rates in tokens per second.
"""

from __future__ import annotations

from typing import Literal

from llm_lite.core.messages.answers import (
    EFFORT,
    OVERFLOWS,
    AllowedTokens,
    Alternative,
    ChatMessage,
    ConversationRead,
    DraftedToken,
    Gains,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    ModelGains,
    Overflow,
    PrefillProgress,
    PromptToken,
    Read,
    Role,
    SourceDrafts,
    SpellTokens,
    StopReason,
    Thinking,
    ThinkingStyle,
    TokenDecoded,
    TokensSpelled,
)
from llm_lite.core.messages.comparing import (
    AnalyzeTensors,
    AnswerDivergence,
    CompareAnswer,
    CompareElsewhere,
    CompareRuns,
    DivergenceMeasured,
    DivergenceReport,
    DropVariant,
    Forced,
    KeepVariant,
    MeasureDivergence,
    MeasureModes,
    ModesMeasured,
    ModeSpeed,
    RunFinished,
    RunReady,
    RunsForced,
    RunToken,
    TensorReport,
    TensorRow,
    VariantDropped,
    VariantKept,
)
from llm_lite.core.messages.encoding import (
    CompareTexts,
    EncodeText,
    TextEncoded,
    TextsCompared,
)
from llm_lite.core.messages.inspecting.accounts import (
    AccountParameter,
    AccountStep,
    OpAccount,
    StepAccount,
    StepAccounted,
)
from llm_lite.core.messages.inspecting.cache import (
    CacheMeasured,
    CacheRewritten,
    CacheStatus,
    Measure,
    MeasureCache,
    OpenCache,
    PooledPrefix,
    SaveCache,
)
from llm_lite.core.messages.inspecting.inside import (
    AttentionPart,
    AttentionRows,
    AttentionRowsMode,
    CompareGains,
    Direction,
    ExportMaps,
    GainsEffect,
    Inspect,
    LensResult,
    LensRow,
    MapsExported,
    ReadAttentionRows,
    ReadRouting,
    ReadStates,
    RoutingRead,
    SetGains,
    SetInterventions,
    StatesRead,
)
from llm_lite.core.messages.inspecting.lesson import FollowToken, TokenFollowed, TokenTrace
from llm_lite.core.messages.inspecting.profiling import (
    KernelForm,
    KernelsStudied,
    KernelStudy,
    OpTime,
    ProfileStep,
    StepProfile,
    StepProfiled,
    StudyBackend,
    StudyKernels,
)
from llm_lite.core.messages.inspecting.tokenizing import (
    CountTokens,
    TextTokenized,
    TokenizeText,
    TokensCounted,
)
from llm_lite.core.messages.keeping import (
    CacheKept,
    CheckKept,
    DraftsLearned,
    ForgetLearnedDrafts,
    KeepConversation,
    KeptChecked,
    KeptResumed,
    MakeTitle,
    ResumeKept,
    TitleMade,
    Unfit,
)
from llm_lite.core.messages.kinds import (
    Cancel,
    Command,
    CommandProgress,
    Ended,
    Event,
    StepRequest,
    Task,
)
from llm_lite.core.messages.models import (
    CacheLayerInfo,
    CacheLayout,
    DraftModelInfo,
    ExecutorChanged,
    ExecutorInfo,
    FileDamaged,
    LoadModel,
    LoadNeedsMemory,
    LoadProgress,
    LoadStarted,
    ModelInfo,
    ModelKind,
    ModelLoaded,
    ModeSwitch,
    Reconfigure,
)
from llm_lite.core.messages.options import (
    ACTIVATIONS,
    BACKENDS,
    DRAFT_LEARNINGS,
    EXPERTS_IN,
    KV_TYPES,
    MODES,
    SPECULATES,
    Activations,
    Backend,
    DraftLearning,
    EngineOptions,
    ExpertsIn,
    KvType,
    Mode,
    SamplingDefault,
    Speculate,
    in_force,
)
from llm_lite.core.messages.runs import AnswerRun, ModelIdentity, WeightSwitch
from llm_lite.core.messages.sampling_options import SamplingOptions
from llm_lite.core.messages.serving import (
    MOST_ALTERNATIVES,
    AnswerRequest,
    ServedRequest,
    ServingChanged,
    ServingStatus,
    StartServing,
    StopServing,
)
from llm_lite.core.messages.tools import ServerSpec, ToolCall, ToolSpec, ToolStyle
from llm_lite.core.messages.translating import (
    MOST_BEAMS,
    OtherTarget,
    ReadTarget,
    SourceRead,
    SourceToken,
    TargetFinished,
    TargetGrown,
    TargetToken,
    Translate,
    TranslationStats,
    TranslatorInfo,
)

Level = Literal["info", "warning", "error"]


class Shutdown(Command, frozen=True):
    pass


class Logged(Event, frozen=True):
    level: Level
    text: str
    time: float  # seconds since the epoch


__all__ = [
    "ACTIVATIONS", "BACKENDS", "DRAFT_LEARNINGS", "EFFORT", "EXPERTS_IN", "KV_TYPES", "MODES",
    "MOST_ALTERNATIVES", "MOST_BEAMS", "OVERFLOWS", "SPECULATES", "AccountParameter",
    "AccountStep", "Activations", "AllowedTokens", "Alternative",
    "AnalyzeTensors", "AnswerDivergence", "AnswerRequest", "AnswerRun", "AttentionPart",
    "AttentionRows",
    "AttentionRowsMode", "Backend", "CacheKept", "CacheLayerInfo", "CacheLayout", "CacheMeasured",
    "CacheRewritten", "CacheStatus", "Cancel", "ChatMessage", "CheckKept", "Command",
    "CommandProgress", "CompareAnswer", "CompareElsewhere", "CompareGains", "CompareRuns",
    "CompareTexts",
    "ConversationRead", "CountTokens", "Direction", "DivergenceMeasured", "DivergenceReport",
    "DraftLearning", "DraftModelInfo", "DraftedToken", "DraftsLearned", "DropVariant", "EncodeText",
    "Ended", "EngineOptions", "Event", "ExecutorChanged", "ExecutorInfo", "ExpertsIn", "ExportMaps",
    "FileDamaged", "FollowToken", "Forced", "ForgetLearnedDrafts", "Gains", "GainsEffect",
    "Generate", "GenerationFinished", "GenerationStarted", "GenerationStats", "Inspect",
    "KeepConversation", "KeepVariant", "KeptChecked", "KeptResumed", "KernelForm", "KernelStudy",
    "KernelsStudied", "KvType", "LensResult", "LensRow", "Level", "LoadModel", "LoadNeedsMemory",
    "LoadProgress", "LoadStarted", "Logged", "MakeTitle", "MapsExported", "Measure", "MeasureCache",
    "MeasureDivergence", "MeasureModes", "Mode", "ModeSpeed", "ModeSwitch", "ModelGains",
    "ModelIdentity", "ModelInfo", "ModelKind", "ModelLoaded", "ModesMeasured",
    "OpAccount", "OpTime",
    "OpenCache", "OtherTarget", "Overflow", "PooledPrefix", "PrefillProgress", "ProfileStep",
    "PromptToken", "Read", "ReadAttentionRows", "ReadRouting", "ReadStates", "ReadTarget",
    "Reconfigure", "ResumeKept", "Role", "RoutingRead", "RunFinished", "RunReady", "RunToken",
    "RunsForced", "SamplingDefault",
    "SamplingOptions", "SaveCache", "ServedRequest", "ServerSpec", "ServingChanged",
    "ServingStatus", "SetGains", "SetInterventions", "Shutdown", "SourceDrafts", "SourceRead",
    "SourceToken", "Speculate", "SpellTokens", "StartServing", "StatesRead", "StepAccount",
    "StepAccounted", "StepProfile", "StepProfiled",
    "StepRequest", "StopReason", "StopServing", "StudyBackend", "StudyKernels", "TargetFinished",
    "TargetGrown", "TargetToken", "Task", "TensorReport", "TensorRow", "TextEncoded",
    "TextTokenized", "TextsCompared", "Thinking", "ThinkingStyle", "TitleMade", "TokenDecoded",
    "TokenFollowed", "TokenTrace", "TokenizeText", "TokensCounted", "TokensSpelled", "ToolCall",
    "ToolSpec", "ToolStyle", "Translate", "TranslationStats", "TranslatorInfo", "Unfit",
    "VariantDropped", "VariantKept", "WeightSwitch", "in_force",
]  # fmt: skip
