"""Cuts shared steps so that a sequence is multiplied alike, whatever else is in the step.

A device multiplies few tokens by one kernel and many by another, which add up in another order. Of
a shared step the number of tokens is other sequences' matter, so that it must not choose: a
sequence with few tokens runs beside others with few, in a plan for few, and one with many in the
largest plan. A step of both reads the weights twice. Where one kernel does all, nothing is cut.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.exec.vulkan.fusion import Fusions
from llm_lite.core.exec.vulkan.tuning import MATRIX_PART, Tuning
from llm_lite.core.plan.expert_layers import expert_layers
from llm_lite.core.plan.plan import Plan, Program, Tensor
from llm_lite.core.plan.step import Segment, Step
from llm_lite.core.records import replace


class SubStep(Struct, frozen=True):
    """A group of sequences of a step as a step of its own, with the step's tokens and outputs that
    are theirs."""

    plan: Plan
    step: Step
    tokens: NDArray[np.intp]
    outputs: NDArray[np.intp]

    def rows_of(self, tensor: Tensor) -> NDArray[np.intp]:
        """Return the indices of the sub-step's rows of a tensor among those of the whole step."""
        return self.tokens if tensor.rows == "tokens" else self.outputs


class _Place(Struct, frozen=True):
    """A segment of a step with its first token and its first output."""

    segment: Segment
    token: int
    output: int


def few_tokens(program: Program, tuning: Tuning) -> int:
    """Return up to how many tokens a plan of shared steps has the kernels for few, as products.py
    chooses them; 0: one kernel does all."""
    if program.pages is None:
        return 0
    if program.pages.segments <= tuning.matvec_tokens:
        return tuning.matvec_tokens
    apart = tuning.matrix[0] or any(map(expert_layers, program.plans))
    return max(MATRIX_PART, program.pages.segments) if apart else 0


def fusions_of(program: Program, tuning: Tuning) -> Fusions:
    """Return the fusions for plans of one token. With shared steps a product must not make its own
    norm, which adds up in another order, and products in tiles are not stacked."""
    if program.pages is None:
        return Fusions()
    return Fusions(norms=False, stacks=program.pages.segments <= tuning.matvec_tokens)


def sub_steps(program: Program, step: Step, few: int) -> list[SubStep]:
    """Split a step so that sequences get the same bits as alone; `few`: see `few_tokens`."""
    alike = [plan for plan in program.plans if plan.shifted == step.shifted]
    plans = [plan for plan in alike if max(plan.max_tokens, plan.max_outputs) <= few]
    plan = program.plan_of(step)
    if not plans or plan in plans:
        return [SubStep(plan, step, np.arange(step.count), np.arange(step.outputs))]
    places, most = _places(step), plans[-1]
    small = [place for place in places if _fits([place], most)]
    large = [place for place in places if not _fits([place], most)]
    found = []
    for together in _packed(small, most):
        found.append(_sub_step(step, together, next(p for p in plans if _fits(together, p))))
    return found + ([_sub_step(step, large, alike[-1])] if large else [])


def _places(step: Step) -> list[_Place]:
    found, token, output = [], 0, 0
    for segment in step.segments:
        found.append(_Place(segment, token, output))
        token, output = token + segment.count, output + segment.outputs
    return found


def _fits(places: Iterable[_Place], plan: Plan) -> bool:
    segments = [place.segment for place in places]
    tokens, outputs = sum(s.count for s in segments), sum(s.outputs for s in segments)
    return tokens <= plan.max_tokens and outputs <= plan.max_outputs


def _packed(places: Iterable[_Place], plan: Plan) -> list[list[_Place]]:
    """Group places in their order, as many together as the plan takes."""
    found: list[list[_Place]] = []
    for place in places:
        if found and _fits([*found[-1], place], plan):
            found[-1].append(place)
        else:
            found.append([place])
    return found


def _sub_step(step: Step, places: list[_Place], plan: Plan) -> SubStep:
    tokens = np.concatenate([np.arange(p.token, p.token + p.segment.count) for p in places])
    outputs = np.concatenate([np.arange(p.output, p.output + p.segment.outputs) for p in places])
    segments = tuple(place.segment for place in places)
    own = replace(step, tokens=step.tokens[tokens], outputs=len(outputs), segments=segments)
    return SubStep(plan, own, tokens, outputs)
