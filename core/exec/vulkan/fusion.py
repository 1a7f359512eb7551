"""Fusion: which neighbouring ops of a plan one dispatch does, and where their scratch is then.

Of a small model a dispatch and the barrier before it take longer than what they compute. So a
product takes over the residual's addition behind it; of a step of one token also the norm before
it, and q, k and v, or gate and up with what gates, are one product of a taller matrix. Stepwise
plans do as much of that as their rows allow. `store` rotates the keys and queries that it keeps,
and `quantize` makes the norm of the rows that it packs.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from llm_lite.core.exec.vulkan.memory import WeightPart
from llm_lite.core.plan.memory import ALIGNMENT, Lifetime, lifetimes, place
from llm_lite.core.plan.plan import Kind, Op, Plan, Tensor, tensor_row_bytes
from llm_lite.core.records import replace

# Weights of a product that makes its own norm: every workgroup makes it again, which in larger ones
# costs more than the dispatch that it saves.
MOST_NORMED = 1 << 23
GATES = ("silu_mul", "gelu_mul")


class Stacks(Protocol):
    """The owner of weights, who knows which of them are adjacent."""

    def stack(self, names: Sequence[str]) -> WeightPart | None:
        """Return the matrices as one with all their rows, if they are adjacent."""
        ...


class Group(Struct, frozen=True):
    """Ops in the plan's order that one call does: one op, or those that its last one takes in.

    `norm`: made by its products for themselves; it counts among the first such group's ops.
    """

    ops: tuple[Op, ...]
    norm: Op | None = None

    def named(self, name: str) -> tuple[Op, ...]:
        return tuple(op for op in self.ops if op.name == name)

    def one(self, name: str) -> Op | None:
        return next(iter(self.named(name)), None)

    @property
    def stacked(self) -> tuple[int, ...]:
        """Return the tensors that its product writes one behind the other."""
        written = () if self.ops[-1].name in GATES else self.named("matmul")
        return tuple(op.outputs[0] for op in written) if len(written) > 1 else ()


class Fusions(Struct, frozen=True):
    """The fusions of a step of one token, besides those of all steps."""

    norms: bool = True  # products make their own
    stacks: bool = True  # products of one tensor are one product


ALL = Fusions()


def groups_of(plan: Plan, weights: Stacks, fusions: Fusions = ALL) -> tuple[Group, ...]:
    return _Grouping(plan, weights, fusions).groups()


def placed(plan: Plan, groups: Sequence[Group]) -> Plan:
    """Return the plan with scratch for these groups: what one reads and writes is not shared."""
    norms = [(group.norm,) if group.norm else () for group in groups]
    done = [(*norm, *group.ops) for norm, group in zip(norms, groups, strict=True)]
    lives = lifetimes(plan.tensors, done, plan.logits)
    runs = [group.stacked for group in groups if group.stacked]
    sizes = {i: lives[i].size for run in runs for i in run}
    for run in runs:
        parts = [lives.pop(i) for i in run]
        first, last = min(p.first for p in parts), max(p.last for p in parts)
        lives[run[0]] = Lifetime(sum(p.size for p in parts), first, last)
    offsets, arena = place(lives)
    for run in runs:
        for before, after in itertools.pairwise(run):
            offsets[after] = offsets[before] + sizes[before]
    tensors = tuple(replace(t, offset=offsets.get(t.id, 0)) for t in plan.tensors)
    return replace(plan, tensors=tensors, scratch_bytes=arena)


class _Grouping:
    def __init__(self, plan: Plan, weights: Stacks, fusions: Fusions) -> None:
        self._plan = plan
        self._fusions = fusions
        self._weights = weights
        self._readers: Mapping[int, list[Op]] = defaultdict(list)
        for op in plan.ops:
            for tensor in op.given:
                self._readers[tensor].append(op)

    def groups(self) -> tuple[Group, ...]:
        found: list[Group] = []
        at = 0
        while at < len(self._plan.ops):
            more = self._normed(at) or [self._group(at)]
            at += sum(len(group.ops) for group in more)
            found += more
        return tuple(found)

    def _group(self, at: int) -> Group:
        found = self._products(at) or self._ropes_and_store(at) or self._norm_and_quantize(at)
        return Group(found or self._plan.ops[at : at + 1])

    def _normed(self, at: int) -> list[Group]:
        """Return the groups of a norm and all its products, which each compute the norm
        itself."""
        norm = self._plan.ops[at]
        if norm.name != "rms_norm" or not (self._one_token and self._fusions.norms):
            return []
        found: list[Group] = []
        end = at + 1
        while (ops := self._products(end)) and ops[0].inputs[0] == norm.outputs[0]:
            found.append(Group(ops, norm))
            end += len(ops)
        if not self._worth_it(norm, [op for group in found for op in group.named("matmul")]):
            return []
        return [Group((norm, *found[0].ops), norm), *found[1:]]

    def _worth_it(self, norm: Op, products: Sequence[Op]) -> bool:
        """Return True if these products are all that read the norm, of whole rows, and are small
        enough."""
        width = self._tensor(norm.inputs[0]).shape[1]
        weighted = len(norm.inputs) > 1 and int(norm.params["width"]) == width
        all_read = bool(products) and self._only(norm.outputs[0], products)
        work = sum(_count(self._tensor(op.inputs[1])) for op in products)
        return weighted and width % 4 == 0 and all_read and work <= MOST_NORMED

    def _products(self, at: int) -> tuple[Op, ...]:
        """Return adjacent products of one tensor that can be one product, and the gate or addition
        behind them."""
        ops = self._plan.ops[at:]
        if not ops or ops[0].name != "matmul":
            return ()
        count = 1
        while count < len(ops) and self._stackable(ops[: count + 1]):
            count += 1
        products = ops[:count]
        tail = ops[count] if count < len(ops) else None
        gated = tail is not None and self._gates(products, tail)
        if count > 1 and not gated and not (self._one_token and self._lie_together(products)):
            return products[:1]
        if tail is not None and (gated or (count == 1 and self._adds(products[0], tail))):
            return (*products, tail)
        return products

    def _stackable(self, ops: Sequence[Op]) -> bool:
        if not (self._one_token and self._fusions.stacks):
            return False
        if any(op.name != "matmul" for op in ops):
            return False
        one_input = len({op.inputs[0] for op in ops}) == 1
        weights = [self._tensor(op.inputs[1]) for op in ops]
        alike = len({(w.dtype, w.shape[1]) for w in weights}) == 1
        results = (self._tensor(op.outputs[0]) for op in ops)
        alike &= all(w.shape[0] == y.shape[1] for w, y in zip(weights, results, strict=True))
        return one_input and alike and self._weights.stack([w.name for w in weights]) is not None

    def _lie_together(self, products: Sequence[Op]) -> bool:
        """Return True if their results can be adjacent: each must be bindable by itself too."""
        results = [self._tensor(op.outputs[0]) for op in products]
        return all(_bytes(y) % ALIGNMENT == 0 for y in results[:-1])

    def _gates(self, products: Sequence[Op], tail: Op) -> bool:
        results = tuple(op.outputs[0] for op in products)
        even = self._tensor(products[0].inputs[1]).shape[0] % 4 == 0
        gates = tail.name in GATES and tail.inputs == results and even
        return gates and all(self._only(y, [tail]) for y in results)

    def _adds(self, product: Op, tail: Op) -> bool:
        (y,) = product.outputs
        return tail.name == "add" and tail.inputs.count(y) == 1 and self._only(y, [tail])

    def _ropes_and_store(self, at: int) -> tuple[Op, ...]:
        """Return the rotations of the first and third rows that a `store` keeps as floats, and that
        store."""
        ops, end = self._plan.ops, at
        while end < len(ops) and ops[end].name == "rope":
            end += 1
        if end == at or end == len(ops) or ops[end].name != "store":
            return ()
        ropes, store = ops[at:end], ops[end]
        alike = len({(r.inputs[1:], _angles(r)) for r in ropes}) == 1
        return (*ropes, store) if alike and all(self._turns(r, store) for r in ropes) else ()

    def _norm_and_quantize(self, at: int) -> tuple[Op, ...]:
        """Return a norm of whole rows, and the only op that reads it, which quantizes them."""
        norm, *others = self._plan.ops[at : at + 2]
        if norm.name != "rms_norm" or not others or others[0].name != "quantize":
            return ()
        width = self._tensor(norm.inputs[0]).shape[1]
        weighted = len(norm.inputs) > 1 and int(norm.params["width"]) == width
        reads = others[0].inputs[0] == norm.outputs[0] and self._only(norm.outputs[0], others)
        return (norm, *others) if weighted and reads else ()

    def _turns(self, rope: Op, store: Op) -> bool:
        (y,) = rope.outputs
        if y not in store.inputs:
            return False
        place = store.inputs.index(y)
        floats = not self._tensor(store.outputs[place]).block
        if place == 2:
            return floats
        return floats and place == 0 and not rope.params["temperature"] and self._only(y, [store])

    def _only(self, tensor: int, readers: Sequence[Op]) -> bool:
        """Return True if these ops alone read the tensor."""
        others = [op for op in self._readers[tensor] if all(op is not r for r in readers)]
        return not others and tensor != self._plan.logits

    @property
    def _one_token(self) -> bool:
        return self._plan.max_tokens == 1

    def _tensor(self, number: int) -> Tensor:
        return self._plan.tensors[number]


def _angles(rope: Op) -> tuple[tuple[str, float], ...]:
    """Return the parameters that determine a rotation's angles; `store` knows a temperature of the
    third rows."""
    return tuple(sorted(p for p in rope.params.items() if not p[0].startswith("temperature")))


def _count(weight: Tensor) -> int:
    return weight.shape[0] * weight.shape[1]


def _bytes(tensor: Tensor) -> int:
    assert tensor.kind is Kind.SCRATCH
    return tensor.shape[0] * tensor_row_bytes(tensor)
