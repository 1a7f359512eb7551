"""A model as a flat, frozen list of ops over named tensors: what every executor runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.plan.module_names import ModuleNames
from llm_lite.core.plan.step import NO_STATE, PageShape, Segment, Step, packed_words
from llm_lite.core.quant.formats import A8_BLOCK

Rows = Literal["fixed", "tokens", "outputs"]
LEFT_OUT = -1  # in Op.inputs: an optional operand that is not there, before one that is


class Kind(Enum):
    WEIGHT = "weight"  # from the model file, read only
    TABLE = "table"  # likewise, but never copied: the host reads single rows where they lie
    STATE = "state"  # lives from step to step: the KV cache
    SCRATCH = "scratch"  # lives within one step, in the arena at `offset`


class Tensor(Struct, frozen=True):
    """A tensor of the plan; `shape` is row-major. For a scratch tensor only the step's rows are
    in use: see `rows`."""

    id: int
    name: str
    kind: Kind
    dtype: str  # "f32", "f16", "a8", "i8", "i4" or the name of a weight format
    shape: tuple[int, ...]
    rows: Rows = "fixed"
    per_token: int = 1  # rows of each token, where `rows` is "tokens": one for each chosen expert
    offset: int = 0  # bytes into the scratch arena
    fill: float = 0.0  # of state: what every value is before the first step
    block: int = 0  # of dtypes i8 and i4: values that share a scale
    ring: int = 0  # first rows of state, which the first sequence has, as a ring or all; 0: all

    def rows_in(self, step: Step) -> int:
        """Return the rows in use of a step."""
        return step.rows(self.rows, self.shape[0]) * self.per_token

    @property
    def ring_rows(self) -> int:
        """Return in how many rows of state the positions of a sequence lie, p in row p mod these;
        of several sequences, those of the first."""
        return self.ring or self.shape[0]


class Op(Struct, frozen=True):
    name: str  # a row of the op table
    inputs: tuple[int, ...]  # tensor ids, or LEFT_OUT
    outputs: tuple[int, ...]
    params: Mapping[str, float]
    label: str  # where in the model: "layers.3.attention.q"

    @property
    def given(self) -> tuple[int, ...]:
        """Return the inputs that are not left out."""
        return tuple(i for i in self.inputs if i != LEFT_OUT)


class Plan(Struct, frozen=True):
    """One bucket: steps of at most `max_tokens` tokens, logits of at most `max_outputs`.

    sliced: a step computes less of the model, over the same weights and caches, and writes rows
    that a step of the whole model writes again; for guessing tokens.

    shifted: what layers leave is shifted by vectors of each sequence, the state LAYER_SHIFTS; a
    program has such plans once somebody shifts.
    """

    max_tokens: int
    max_outputs: int
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    scratch_bytes: int
    logits: int  # tensor id, f32 [max_outputs, vocabulary]; of an encoder without a head its
    # hidden states, f32 [max_tokens, width]
    layer_ends: tuple[int, ...] = ()  # by layer: the op that makes the residual stream behind it
    sliced: bool = False
    shifted: bool = False
    names: ModuleNames = ModuleNames()  # what others call its places


LAYER_SHIFTS = "layer_shifts"  # state f32 [slots * layers, columns] of shifted plans; 0: untouched


class Program(Struct, frozen=True):
    """The plans of one model, by ascending `max_tokens`, and behind them those that are shifted;
    weights and state are shared by name."""

    plans: tuple[Plan, ...]
    context: int  # positions in the KV cache; of a sequence where several share steps
    vocabulary: int
    pages: PageShape | None = None  # of the caches, where several sequences share steps
    source: int = 0  # positions of an encoder's keys and values; 0: no cross-attention

    def plan_for(
        self, tokens: int, outputs: int, *, sliced: bool = False, shifted: bool = False
    ) -> Plan:
        """Return the smallest plan that takes a step of this size; a slice is never shifted.
        ValueError if none does."""
        for plan in self.plans:
            fits = tokens <= plan.max_tokens and outputs <= plan.max_outputs
            if fits and plan.sliced == sliced and plan.shifted == (shifted and not sliced):
                return plan
        raise ValueError(f"no plan for a step of {tokens} tokens and {outputs} outputs")

    def step(
        self,
        tokens: Sequence[int],
        start: int,
        outputs: int = 1,
        source: int = 0,
        states: tuple[int, int] = (NO_STATE, 0),
        shifted: bool = False,
    ) -> Step:
        """Return the step over tokens of one sequence from position `start` on; where sequences lie
        in pages, of the first. `states` as of `Segment`."""
        ids = np.asarray(tokens, np.int32)
        if self.pages is None:
            return Step(ids, start, outputs, source=source, shifted=shifted)
        table = self.pages.first_table
        segment = Segment(start, len(ids), outputs, table, states=states)
        return Step(ids, 0, outputs, (segment,), source, shifted=shifted)

    def takes(self, tokens: int, outputs: int) -> bool:
        """Return whether there is a plan for a step of this size."""
        plans = (plan for plan in self.plans if not plan.sliced)
        return any(tokens <= plan.max_tokens and outputs <= plan.max_outputs for plan in plans)

    def plan_of(self, step: Step) -> Plan:
        """Return the smallest plan that takes this step. ValueError if none does."""
        return self.plan_for(step.count, step.outputs, sliced=step.sliced, shifted=step.shifted)

    @property
    def max_tokens(self) -> int:
        return max(plan.max_tokens for plan in self.plans)

    @property
    def chunk(self) -> int:
        """Return the most tokens of a prompt in one step: no more than a ring of kept queries has
        rows for, though a step takes those of other sequences too."""
        return (self.pages.chunk if self.pages else 0) or self.max_tokens

    @property
    def max_outputs(self) -> int:
        return max(plan.max_outputs for plan in self.plans)

    @property
    def can_shift(self) -> bool:
        """Return True if there are plans that are shifted."""
        return any(plan.shifted for plan in self.plans)

    @property
    def has_slice(self) -> bool:
        """Return True if there is a plan of a slice of the model."""
        return any(plan.sliced for plan in self.plans)

    @property
    def most_drafted(self) -> int:
        """Return the most drafted tokens of a step, behind the token that it decodes. Each is a
        segment, so that it gets the bits that it would get alone. Where layers have a recurrent
        state, each leaves one of its own, as no state goes back to before a token."""
        if self.pages is None:
            return 0
        most = self.pages.segments - 1
        return min(most, self.pages.drafted_states) if self.pages.states else most

    @property
    def step_words(self) -> int:
        """Return the words of a step buffer that serves all plans."""
        return packed_words(self.max_tokens, self.pages, self.max_outputs)

    def pack(self, step: Step) -> NDArray[np.int32]:
        """Return the step buffer that serves all plans."""
        return step.pack(self.max_tokens, self.pages, self.max_outputs)


def tensor_row_bytes(tensor: Tensor) -> int:
    """Return the bytes of one row of a scratch or state tensor."""
    return row_bytes(tensor.dtype, tensor.shape[-1], tensor.block)


def row_bytes(dtype: str, columns: int, block: int = 0) -> int:
    """Return the bytes of one row of a scratch or state tensor.

    A row of a8 is `columns` int8 values, then two float32 a block, its scale and the sum of what it
    stands for (formats with minima need it), then two int16 a block, its zero point and the sum
    without the scale (`core.quant.blocks.a8`). A row of i8, for caches, is `columns` int8 values,
    then a float16 scale for each `block` of them, padded to whole words; one of i4 likewise, with
    two values in a byte.
    """
    if dtype == "f32":
        return 4 * columns
    if dtype == "f16":
        return 2 * columns
    if dtype == "a8":
        return columns + 12 * (columns // A8_BLOCK)
    if dtype in ("i8", "i4"):
        values = columns if dtype == "i8" else columns // 2
        return -(-(values + 2 * (columns // block)) // 4) * 4
    raise ValueError(f"{dtype} is no scratch or state type")
