"""The check that a model fits before it is loaded: the estimate of `core/hub/fit/` for an open file
and the executor that is to run it, and the guard of a load."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from msgspec import Struct

from llm_lite.core.errors import DoesNotFitError, LlmLiteError, RequestError
from llm_lite.core.hub.fit.bandwidth import known_gb_s
from llm_lite.core.hub.fit.description import ModelDescription, TensorSpec
from llm_lite.core.hub.fit.estimate import Planned, estimate, planned
from llm_lite.core.hub.fit.machine import Machine
from llm_lite.core.hub.fit.recommend import (
    BY_QUALITY,
    LEAST_CONTEXT,
    instead_of,
    total,
    what_is_missing,
)
from llm_lite.core.loading import backends
from llm_lite.core.loading.beside import programs_beside
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.model_source import ModelSource
from llm_lite.core.memory import largest_context
from llm_lite.core.messages import EngineOptions, ExpertsIn, Mode
from llm_lite.core.messages.library import Fit
from llm_lite.core.models.model import ModelShape
from llm_lite.core.models.registry import cutter_of
from llm_lite.core.plan.cache_layers import cache_bytes, cache_layout
from llm_lite.core.quant.modes import rounded_again
from llm_lite.core.records import replace

DEFAULT_CONTEXT = 8192  # tokens, where the model was trained for as many


class Fitting(Struct, frozen=True):
    """A model and the executor that is to run it. FileError, UnsupportedError, RequestError."""

    description: ModelDescription
    choice: backends.ExecutorChoice
    machine: Machine

    def plan(self, options: EngineOptions, *, every_output: bool = False) -> Planned:
        model = self.description.model()
        shape = model.shape
        if model.embeds:  # it reads texts up to its own length, whatever chats are given
            options = replace(options, context=min(options.context, shape.trained_context))
        context = context_of(shape, options)
        if model.embeds:
            build = backends.text_encoder_options(self.choice, options, shape, context=context)
        else:
            build = backends.build_options(
                self.choice,
                options,
                shape,
                context=context,
                every_output=every_output,
                draft_slice=model.draft_slice,
            )
        plan = planned(self.description, options, build, partial(programs_beside, build=build))
        return self._with_experts(replace(plan, accelerator=self.choice.accelerator))

    def _with_experts(self, plan: Planned) -> Planned:
        """Settle where the experts of a mixture are, if that was left open or cannot be."""
        if not plan.has_experts:
            return plan
        asked, found = plan.options.experts, [_placed(plan, "memory")]
        if self.choice.backend == "vulkan":
            found.append(_placed(plan, "cpu"))
        if self.choice.backend != "numpy" and _placed(plan, "file").in_file:
            found.append(_placed(plan, "file"))
        if asked == "auto":
            return next((one for one in found if estimate(one, self.machine).fits), found[0])
        same = (one for one in found if one.options.experts == asked)
        return next(same, found[-1 if asked == "file" else 0])

    def fit(self, options: EngineOptions, gb_s: float | None = None) -> Fit:
        """Return the fit with these options, with what would fit if it does not."""
        plan = self.plan(options)
        again = rounded_again(self.description.tensors.values(), options.mode)
        found = replace(estimate(plan, self.machine, gb_s), rounded_again=again)
        if found.fits:
            return found
        return replace(found, instead=self.instead(plan, found, self.smaller(plan, found)))

    def smaller(self, plan: Planned, asked: Fit) -> tuple[Fit, ...]:
        """Return the closest fits to the request: a shorter context, the most exact of the smaller
        modes, or else the smallest mode with a shorter context."""
        found = [self._shorter(plan, asked)]
        for mode in BY_QUALITY:
            fit = self._in_mode(plan.options, mode, asked)
            if fit is not None and fit.fits:
                found.append(fit)
                break
        if not any(found):
            smallest = self.plan(replace(plan.options, mode="int4"))
            found = [self._shorter(smallest, estimate(smallest, self.machine))]
        return tuple(fit for fit in found if fit is not None)

    def instead(self, plan: Planned, asked: Fit, others: tuple[Fit, ...]) -> str:
        return instead_of(others, asked, "" if others else self._slice(plan.options))

    def _in_mode(self, options: EngineOptions, mode: Mode, asked: Fit) -> Fit | None:
        """Return the fit in `mode`, or None if it needs as much memory."""
        try:
            fit = estimate(self.plan(replace(options, mode=mode)), self.machine)
        except LlmLiteError:
            return None
        return fit if total(fit) < total(asked) else None

    def _shorter(self, plan: Planned, asked: Fit) -> Fit | None:
        """Return the same with the largest context that fits, or None."""
        layout = cache_layout(plan.program, plan.options.keys, plan.options.values)
        rooms = [
            free - sum(getattr(part, at) for part in asked.parts)
            for free, at in ((asked.host_free, "host"), (asked.device_free, "device"))
            if free is not None
        ]
        if not rooms:
            return None
        spare = min(rooms) + cache_bytes(plan.program.plans[0])
        context = largest_context(layout, plan.program.context, spare)
        if not LEAST_CONTEXT <= context < plan.program.context:
            return None
        fit = estimate(self.plan(replace(plan.options, context=context)), self.machine)
        return fit if fit.fits else None

    def _slice(self, options: EngineOptions) -> str:
        """Return the title of the largest known slice that fits; "" if there is none."""
        from llm_lite.core.models.gemma3n.cut import SLICES

        one = self.description
        for title in reversed(list(SLICES)):
            try:
                cutter = cutter_of(one.metadata, one.data, one.path, SLICES[title])
                cuts = [cutter.cut(tensor) for tensor in one.data.values()]
                specs = {c.name: TensorSpec(c.name, c.dtype, c.shape) for c in cuts if c}
                metadata = cutter.metadata(one.metadata)
                smaller = replace(one, metadata=metadata, tensors=specs, data={})
                if replace(self, description=smaller).fit(options).fits:
                    return title
            except LlmLiteError:
                return ""
        return ""


def _placed(plan: Planned, experts: ExpertsIn) -> Planned:
    return replace(plan, options=replace(plan.options, experts=experts))


def description_of(model_file: ModelFile) -> ModelDescription:
    return described(model_file.file, model_file.kept)


def described(source: ModelSource, kept: Iterable[Mode] = ()) -> ModelDescription:
    """Return the description of an open source; only its header is read."""
    return ModelDescription(
        source.path, source.metadata, source.tensors, frozenset(kept), data=source.tensors
    )


def context_of(shape: ModelShape, options: EngineOptions) -> int:
    """Return the context in tokens: where a longer one changes how short texts are computed, no
    longer than that unless it is asked for. RequestError if the model was trained for fewer."""
    trained = shape.trained_context
    if options.context < 0:
        raise RequestError(f"context: expected 1 to {trained} tokens, found {options.context}")
    if options.context > trained:
        raise RequestError(
            f"context: expected at most {trained} tokens, as many as the model was trained for, "
            f"found {options.context}"
        )
    return options.context or min(trained, shape.short_context or trained, DEFAULT_CONTEXT)


def guarded(
    model_file: ModelFile,
    choice: backends.ExecutorChoice,
    options: EngineOptions,
    machine: Machine,
    *,
    every_output: bool,
) -> Planned:
    """Return the plan of a load. DoesNotFitError if it would take more than the `machine` has,
    unless `options` force it."""
    asked = Fitting(description_of(model_file), choice, machine)
    plan = asked.plan(options, every_output=every_output)
    if options.force:
        return plan
    if estimate(plan, asked.machine).fits:
        return plan
    fit = estimate(plan, asked.machine, known_gb_s(choice.info))
    others = asked.smaller(plan, fit)
    instead = asked.instead(plan, fit, others)
    where = "this machine" if choice.info is None else choice.info.name
    raise DoesNotFitError(
        f"{what_is_missing(fit, where)}: {instead}", replace(fit, instead=instead), others
    )
