"""A model that runs: its file, executor and session, what else was made for it, and its
description."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType

from msgspec import Struct, field

from llm_lite.core.errors import RequestError, UnsupportedError
from llm_lite.core.exec.accelerator import Accounting
from llm_lite.core.exec.executor import Executor, StopCheck
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.speculation.ngram_learning import LearnedDrafts
from llm_lite.core.generation.translation import SourceEncoder, Translator
from llm_lite.core.hub import catalog
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.loading import backends
from llm_lite.core.loading.draft_models import LoadedDraft
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.model_source import ModelSource
from llm_lite.core.loading.verification import Part
from llm_lite.core.loading.weights import conversion_note, described, of_blocks
from llm_lite.core.messages import (
    AttentionPart,
    EngineOptions,
    ExecutorInfo,
    Gains,
    ModelInfo,
    TranslatorInfo,
)
from llm_lite.core.messages.interventions import Shifts
from llm_lite.core.models.model import BuildOptions, Model
from llm_lite.core.models.registry import read_model
from llm_lite.core.plain_text import one_line
from llm_lite.core.plan.cache_layers import cache_layout
from llm_lite.core.plan.expert_layers import expert_layers
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.recurrent_layers import state_layers
from llm_lite.core.plan.traffic import active_bytes
from llm_lite.core.quant.modes import AS_STORED, MODES, again_sentence, mode_bytes, rounded_again
from llm_lite.core.quant.second_rounding import again_error
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace


class Runner(Struct):
    """A model on an executor."""

    model_file: ModelFile
    executor: Executor
    session: Session
    attention: AttentionSource
    choice: backends.ExecutorChoice
    model_info: ModelInfo
    executor_info: ExecutorInfo
    options: EngineOptions
    weights: Mapping[str, TensorData]  # the executor's
    build: BuildOptions
    unchecked: tuple[Part, ...] = ()  # what of a kept variant is in use
    beside: list[Executor] = field(default_factory=list)  # others on its device, closed with it
    source_encoder: SourceEncoder | None = None  # of an encoder-decoder
    translator: Translator | None = None  # of an encoder-decoder
    draft: LoadedDraft | None = None  # a smaller model that drafts, on an executor of `beside`
    undrafted: str = ""  # a sentence on why the draft model asked for is of no use
    learned_told: bool = False  # what drafts learned, on an idle engine
    parts: dict[AttentionPart, AttentionSource] = field(default_factory=dict)  # of one, its maps

    @property
    def note(self) -> str:
        """Return sentences on weights that are not multiplied as they are stored, though that was
        requested, or that are rounded twice, and on a context that makes short texts less exact;
        "" if there are none."""
        weights = weights_note(self.model_info, self.executor_info)
        return "; ".join(filter(None, (weights, self._context_note)))

    @property
    def _context_note(self) -> str:
        within, context = self.model_file.model.shape.short_context, self.session.context
        if not within or context <= within:
            return ""
        return (
            f"the context of {context} tokens gives every text the rotary positions of long ones "
            f"(LongRoPE); those of up to {within} tokens are more exact in a context of {within}"
        )

    @property
    def executors(self) -> tuple[Executor, ...]:
        """Return all executors that compute for it."""
        return (self.executor, *self.beside)

    @property
    def model(self) -> Model:
        """Return the model over the weights as this executor has them."""
        return read_model(self.model_file.file.metadata, self.weights, self.model_file.path)

    @property
    def has_client_room(self) -> bool:
        """Return True if its cache has pages for clients of a server besides the chat's."""
        pages = self.executor.program.pages
        return pages is not None and pages.shared > 0

    def attention_of(self, part: AttentionPart) -> AttentionSource:
        """Return the source of maps of a part of an encoder-decoder; for other models that of all
        maps."""
        return self.parts.get(part, self.attention)

    @property
    def gains(self) -> Gains:
        """Return the gains, a row for each layer; for an encoder-decoder the rows of the decoder's
        self-attention, of its cross-attention, and then of the encoder."""
        return self.session.gains + (self.source_encoder.gains if self.source_encoder else ())

    def check_gains(self, gains: Gains) -> None:
        """Raise RequestError unless there is a finite number for every head, in the layout of
        `gains`."""
        mine = self._decoder_rows(gains)
        self.session.check_gains(gains[:mine])
        if self.source_encoder is not None:
            self.source_encoder.check_gains(gains[mine:])

    def set_gains(self, gains: Gains, shifts: Shifts = (), *, throughout: bool = False) -> None:
        """Weigh the heads, and shift what layers leave, from the next step on, heads of an encoder
        from the next source on; as of `Session`. RequestError where nothing can be shifted."""
        if shifts:
            self.enable_shifts()
        mine = self._decoder_rows(gains)
        self.session.set_gains(gains[:mine], shifts, throughout=throughout)
        if self.source_encoder is not None:
            self.source_encoder.set_gains(gains[mine:])

    def enable_shifts(self) -> None:
        """Have plans in which what layers leave is shifted, beside those that there are: nothing of
        them costs anything before. RequestError where the executor cannot."""
        program, build = self.executor.program, self.build
        if program.can_shift:
            return
        name, what = self.model_info.name, "its layers are not shifted"
        if self.source_encoder is not None:
            raise unchanged_while_writing(name, what, OWN_BEAMS)
        slots = program.pages.slots if program.pages else 1
        buckets = [replace(one, shift_slots=slots) for one in build.buckets if not one.sliced]
        model = self.model
        plans = tuple(model.plan(build, bucket) for bucket in buckets)
        try:
            self.executor.extend(replace(program, plans=program.plans + plans))
        except UnsupportedError as error:
            raise unchanged_while_writing(name, what, str(error)) from error

    def _decoder_rows(self, gains: Gains) -> int:
        """Return how many of these rows are the decoder's: all if there is no encoder, or if they
        are too few."""
        return len(self.session.gains) if self.source_encoder is not None else len(gains)

    def report_drafts(self, tell: Callable[[str], None]) -> None:
        """Have `tell` called with why the requested draft model drafts nothing, now or once it is
        so, and with what is wrong with the file of learned drafts."""
        if self.undrafted:
            tell(self.undrafted)
        if self.draft is not None:
            self.draft.source.report_to(tell)
        if self.learned is not None:
            self.learned.report_to(tell)

    @property
    def learned(self) -> LearnedDrafts | None:
        """Return what its drafts learned from answers; None if they learn nothing."""
        return self.session.speculation.learned if self.session.speculation is not None else None

    def read_source(self, tokens: Sequence[int], should_stop: StopCheck | None = None) -> None:
        """Read the source of an encoder-decoder's target, which then begins. RequestError for a
        model without an encoder, and for a source that is too long."""
        if self.translator is None:
            raise RequestError(f"{self.model_info.name} has no encoder: it continues texts")
        self.translator.read_source(tokens, should_stop)

    def close(self) -> None:
        """Close the executor and a device opened for it; the model file stays open."""
        with ExitStack() as stack:  # each, whatever a lost device says of others
            if self.choice.owns_device and self.choice.device is not None:
                stack.callback(self.choice.device.close)
            if self.draft is not None:
                stack.callback(self.draft.file.close)
            stack.callback(self.executor.close)
            for executor in self.beside:
                stack.callback(executor.close)
            self.beside = []
            if self.learned is not None:
                stack.callback(self.learned.close)
            for source in (self.attention, *self.parts.values()):
                source.close()


def weights_note(model: ModelInfo, executor: ExecutorInfo) -> str:
    """Return a sentence on weights that are not as the file has them, though that was requested, or
    that are rounded twice; "" if there are none."""
    if executor.mode == AS_STORED:
        return model.conversion
    share = model.rounded_again.get(executor.mode, 0.0)
    error = model.again_error.get(executor.mode, 0.0)
    return again_sentence(executor.mode, share, error) if share else ""


def model_info(
    model_file: ModelFile, options: EngineOptions, context: int, executor: Executor
) -> ModelInfo:
    shape, tensors = model_file.model.shape, model_file.file.tensors
    formats: Counter[str] = Counter()
    for tensor in tensors.values():
        formats[tensor.dtype] += tensor.nbytes
    metadata = model_file.file.metadata
    cache = cache_layout(executor.program, options.keys, options.values)
    with_experts = expert_layers(executor.program.plans[0])
    again = {m: share for m in MODES if (share := rounded_again(tensors.values(), m))}
    return ModelInfo(
        name=name_of(model_file.file),
        path=str(model_file.path),
        architecture=one_line(str(metadata.get("general.architecture"))),
        parameters=sum(math.prod(t.shape) for t in tensors.values()),
        file_bytes=model_file.size,
        weight_bytes=executor.weight_bytes,
        kv_bytes=cache.reserved_bytes,
        cache=cache,
        context=context,
        trained_context=shape.trained_context,
        vocabulary=shape.vocabulary,
        layers=shape.layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        width=shape.width,
        feed_forward=shape.feed_forward,
        has_chat_template=model_file.template.origin == "model",
        sampling_defaults=model_file.sampling_defaults,
        translator=_translator_info(model_file.model),
        recurrent_layers=shape.recurrent_layers,
        delta_layers=tuple(state_layers(executor.program.plans[0])),
        expert_layers=tuple(layer.layer for layer in with_experts),
        experts=with_experts[0].experts if with_experts else 0,
        chosen_experts=with_experts[0].chosen if with_experts else 0,
        has_slice=model_file.model.draft_slice is not None,
        switches_thinking=bool(model_file.template.thinking_switch),
        template_variables=tuple(sorted(model_file.template.variables)),
        tool_style=model_file.template.for_tools().tool_style,
        mode_bytes=MappingProxyType({m: mode_bytes(tensors.values(), m) for m in MODES}),
        rounded_again=MappingProxyType(again),
        again_error=MappingProxyType({m: again_error(tensors.values(), m) for m in again}),
        stored_formats=MappingProxyType(dict(formats)),
        format_notes=described(formats),
        block_formats=of_blocks(formats),
        conversion=conversion_note(model_file),
        kept=MappingProxyType({mode: str(path) for mode, path in model_file.kept.items()}),
    )


def executor_info(
    choice: backends.ExecutorChoice, options: EngineOptions, program: Program
) -> ExecutorInfo:
    integer = any(op.name == "quantize" for plan in program.plans for op in plan.ops)
    return ExecutorInfo(
        backend=choice.backend,
        device=backends.device_name(choice),
        reason=choice.reason or backends.unused_note(choice, program),
        shared=backends.shared_work(choice, program),
        mode=options.mode,
        activations="a8" if integer else "a32",  # float weights have no use for int8
        keys=options.keys,
        values=options.values,
        threads=_threads(choice, options),
        active_bytes=active_bytes(program.plans[0]),
        experts=choice.experts,
        accounts=isinstance(choice.accelerator, Accounting),
    )


def _translator_info(model: Model) -> TranslatorInfo | None:
    """Return how a translator is used; None for a model that is no encoder-decoder."""
    decoding, encoder = model.decoding, model.encoder
    if decoding is None or encoder is None:
        return None
    return TranslatorInfo(decoding.beams, decoding.prefixes, encoder.shape.layers)


def name_of(file: ModelSource) -> str:
    """Return what people call a model: its title in the catalogue, or its file's own name."""
    own = file.metadata.get("general.name")
    own = own if isinstance(own, str) and own.strip() else file.path.stem
    return one_line(catalog.title_of(file.path) or own)


def _threads(choice: backends.ExecutorChoice, options: EngineOptions) -> int:
    if choice.backend == "cpu":
        from llm_lite.core.processor import default_threads

        return options.threads or default_threads()
    return os.cpu_count() or 1


OWN_BEAMS = "an encoder-decoder searches its targets in beams, which have steps of their own"


def unchanged_while_writing(name: str, what: str, why: str) -> RequestError:
    """Return the error of a model that cannot be changed in a way while it writes."""
    return RequestError(
        f"{name}: {what} while it writes, as {why}: patch and activations change what it computes "
        "where tokens run again"
    )
