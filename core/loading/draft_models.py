"""A smaller model that drafts for another: its checks, its options, and its memory."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.errors import (
    DoesNotFitError,
    LlmLiteError,
    OutOfDeviceMemoryError,
    OutOfMemoryError,
    RequestError,
)
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.draft_model import DraftModel
from llm_lite.core.loading import backends
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.messages import DraftModelInfo, EngineOptions, KvType, Mode, ModelInfo
from llm_lite.core.models.model import ModelShape
from llm_lite.core.plan.checks import WHOLE_WORDS
from llm_lite.core.records import replace

MODE: Mode = "int4"  # of its weights: the fewest bytes a token; what it says need not be exact

_PADDING = 512  # unused tokens that one vocabulary may have more than the other


class LoadedDraft(Struct, frozen=True):
    """A draft model that runs; its executor is one of the runner's."""

    file: ModelFile
    session: Session
    info: DraftModelInfo
    source: DraftModel


def fault_of(error: LlmLiteError) -> RequestError:
    """Return the error with the draft model named in it. Lack of memory stays one: where another
    executor is in use, it makes room. What would fit instead is left out: it is not the target."""
    sentence = f"draft model: {error}"
    if isinstance(error, DoesNotFitError):
        return DoesNotFitError(sentence, error.fit, ())
    if isinstance(error, (OutOfMemoryError, OutOfDeviceMemoryError)):
        return OutOfMemoryError(sentence)
    return RequestError(sentence)


def draft_options(options: EngineOptions, draft: ModelFile, context: int) -> EngineOptions:
    """Return how the draft model runs for a model with these options and this context: it keeps
    nothing that only people look at, and can go back as far as drafts are wrong."""
    return replace(
        options,
        mode=MODE,
        keys=_kept_as(options.keys, draft.model.shape),
        values=_kept_as(options.values, draft.model.shape),
        context=min(context, draft.model.shape.trained_context),
        query_budget=0,
        pool_budget=0,
        whole_caches=True,
        speculate="lookup",  # steps that read several tokens at once
        draft_model="",
    )


def _kept_as(kind: KvType, shape: ModelShape) -> KvType:
    """Return the target's type of keys or values, or fp16 if the draft model's heads misfit."""
    words = WHOLE_WORDS.get(backends.CACHE_DTYPES[kind], 1)
    widths = shape.query_widths or (shape.head_dim,)
    return "fp16" if any(width % words for width in widths) else kind


def check_drafts_for(draft: ModelFile, target: ModelFile) -> None:
    """Raise RequestError unless the draft model writes text with the same tokens."""
    if not draft.model.continues:
        raise RequestError(
            f"{draft.path}: a draft model continues texts: expected a decoder, "
            f"found an {draft.model.kind}"
        )
    if draft.model.shape.recurrent_layers:
        raise RequestError(
            f"{draft.path}: layers with a recurrent state cannot go back to before a token that "
            "was rejected: expected a draft model of attention alone"
        )
    ours, theirs = draft.tokenizer.tokens, target.tokenizer.tokens
    if abs(len(ours) - len(theirs)) > _PADDING:
        expected, found = f"{len(theirs):,} tokens", f"{len(ours):,}"
    else:
        pairs = zip(ours, theirs, strict=False)
        at = next((i for i, (one, other) in enumerate(pairs) if one != other), None)
        if at is None:
            return
        expected, found = f"{theirs[at][:40]!r} as token {at}", repr(ours[at][:40])
    raise RequestError(
        f"{draft.path}: a draft model has the vocabulary of the model that it drafts for, "
        f"{target.path}: expected {expected}, found {found}"
    )


def of_no_use(source: str, choice: backends.ExecutorChoice, target: ModelFile) -> str:
    """Return a sentence on why a draft model is not loaded, where answers are not drafted."""
    why = "answers are not drafted here"
    if not target.model.continues:
        why = f"what an {target.model.kind} writes is not drafted"
    elif choice.info is not None and choice.info.kind == "software":
        why = f"drafts gain nothing on {choice.info.name}, which is only software"
    return f"draft model: {source} is not used, as {why}"


def info_of(draft: ModelFile, info: ModelInfo) -> DraftModelInfo:
    return DraftModelInfo(
        info.name, str(draft.path), MODE, info.weight_bytes, info.kv_bytes, info.context
    )


def source_of(session: Session, draft: ModelFile, target: ModelFile) -> DraftModel:
    """Return the model's source of drafts, after measuring how long its steps take."""
    rows = min(draft.model.shape.vocabulary, target.model.shape.vocabulary)
    source = DraftModel(session, rows)
    source.measure()
    return source
