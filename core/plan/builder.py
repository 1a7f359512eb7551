"""Builds a Plan op by op; a model definition calls these methods and nothing else.

A method is named after its op, takes tensor handles, checks shapes and returns the output's handle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from llm_lite.core.plan.checks import (
    WHOLE_WORDS,
    Cut,
    expect,
    expect_alike,
    expect_attention,
    expect_blocks,
    expect_product,
)
from llm_lite.core.plan.memory import lifetimes, place, placed
from llm_lite.core.plan.ops import OPS
from llm_lite.core.plan.plan import LEFT_OUT, Kind, Op, Plan, Rows, Tensor
from llm_lite.core.quant.formats import A8_BLOCK, FORMATS, TILE_ROWS
from llm_lite.core.records import replace


class WeightSpec(Protocol):
    """The interface of a weight to a plan; no data."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class Bucket(Struct, frozen=True):
    max_tokens: int
    max_outputs: int
    sliced: bool = False  # as `Plan.sliced`
    shift_slots: int = 0  # of sequences that are shifted, each by its own vectors; 0: none is


class PlanBuilder:
    def __init__(
        self, weights: Mapping[str, WeightSpec], bucket: Bucket, *, integer_activations: bool
    ) -> None:
        self._weights = weights
        self._bucket = bucket
        self.sliced = bucket.sliced  # as `Plan.sliced`
        self.shift_slots = bucket.shift_slots
        self._integer_activations = integer_activations
        self._tensors: list[Tensor] = []
        self._by_name: dict[str, Tensor] = {}
        self._quantized: dict[int, Tensor] = {}
        self._expert_rows: dict[tuple[int, int], Tensor] = {}
        self._ops: list[Op] = []
        self._layer_ends: list[int] = []

    def has(self, name: str) -> bool:
        return name in self._weights

    def weight(self, name: str) -> Tensor:
        spec = self._weights[name]
        return self._by_name.get(name) or self._tensor(name, Kind.WEIGHT, spec.dtype, spec.shape)

    def table(self, name: str) -> Tensor:
        """Return a weight that is too large to be anywhere but on disk."""
        spec = self._weights[name]
        return self._tensor(name, Kind.TABLE, spec.dtype, spec.shape)

    def state(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        *,
        fill: float = 0.0,
        block: int = 0,
        ring: int = 0,
    ) -> Tensor:
        """Return a state tensor. `block`: for dtypes i8 and i4 the values that share a scale, a
        head's. `ring`: see `Tensor`."""
        if dtype in WHOLE_WORDS:
            expect_blocks(name, dtype, block, shape)
        else:
            block = 0
        made = self._by_name.get(name)
        if made is not None:
            return made
        return self._tensor(name, Kind.STATE, dtype, shape, fill=fill, block=block, ring=ring)

    def embed(self, table: Tensor, label: str) -> Tensor:
        y = self._scratch(label, table.shape[1])
        return self._op("embed", (table,), y, label)

    def table_rows(self, table: Tensor, label: str) -> Tensor:
        expect(table.kind is Kind.TABLE, f"{label}: {table.name} is not kept on disk")
        return self._op("table_rows", (table,), self._scratch(label, table.shape[1]), label)

    def position_rows(self, table: Tensor, label: str, *, first: int = 0) -> Tensor:
        """Look up a row of the table for the position of each token: learned or sinusoidal
        positions. `first`: the row of position 0, behind rows that a checkpoint keeps for padding.
        """
        expect(0 <= first < table.shape[0], f"{label}: row {first} of {table.shape}")
        y = self._scratch(label, table.shape[1])
        return self._op("position_rows", (table,), y, label, first=first)

    def type_rows(self, table: Tensor, label: str, *, separator: int) -> Tensor:
        """Look up a table's row for each token's type: 0 up to the first separator, 1 behind it."""
        y = self._scratch(label, table.shape[1])
        return self._op("type_rows", (table,), y, label, separator=separator)

    def rms_norm(
        self, x: Tensor, weight: Tensor | None, eps: float, label: str, *, width: int = 0
    ) -> Tensor:
        """Apply RMSNorm to each `width` values of a row; left out: as many as there are weights,
        else all."""
        width = width or (weight.shape[0] if weight else x.shape[1])
        expect(x.shape[1] % width == 0, f"{label}: {width} does not fit {x.shape}")
        if weight is not None:
            expect(weight.shape == (width,), f"{label}: {weight.shape} does not fit {width}")
        inputs = (x,) if weight is None else (x, weight)
        return self._op("rms_norm", inputs, self._like(x, label), label, eps=eps, width=width)

    def layer_norm(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, label: str
    ) -> Tensor:
        """Apply LayerNorm to whole rows."""
        inputs = (x, weight) if bias is None else (x, weight, bias)
        for vector in inputs[1:]:
            expect(vector.shape == (x.shape[1],), f"{label}: {vector.shape} on {x.shape}")
        return self._op("layer_norm", inputs, self._like(x, label), label, eps=eps)

    def matmul(
        self, x: Tensor, weight: Tensor, label: str, *, float_inputs: bool = False, cut: Cut = None
    ) -> Tensor:
        """Multiply x . weight^T; x is quantized first where the plan has a8 activations and its
        blocks allow it.

        float_inputs: never. For the logits, whose errors nothing dampens: to round their inputs to
        int8 costs a quarter of all that a8 loses. cut: how many of the weight's first rows and
        columns are used; None: all.
        """
        outputs = expect_product(label, x, weight, cut)
        y = self._scratch(label, outputs, rows=x.rows)
        taken = x if float_inputs else self._activations(x, weight)
        return self._op("matmul", (taken, weight), y, label)

    def rope(
        self,
        x: Tensor,
        label: str,
        *,
        head_dim: int,
        rotary_dim: int,
        theta: float,
        scale: float = 1.0,
        half_split: bool = False,
        factors: Tensor | None = None,
        temperature: float = 0.0,
        temperature_length: int = 1,
    ) -> Tensor:
        """Rotate rows by their positions. `temperature` > 0: rows grow by their positions, as
        queries of Llama 4 do."""
        expect(temperature >= 0, f"{label}: a temperature of {temperature}")
        expect(temperature_length > 0, f"{label}: a temperature of {temperature_length} positions")
        expect(x.shape[1] % head_dim == 0, f"{label}: {x.shape} is no multiple of {head_dim}")
        expect(
            0 < rotary_dim <= head_dim and rotary_dim % 2 == 0,
            f"{label}: rotary_dim {rotary_dim} is odd or not in 2..{head_dim}",
        )
        if factors is not None:
            expect(factors.shape == (rotary_dim // 2,), f"{label}: factors {factors.shape}")
        return self._op(
            "rope",
            (x,) if factors is None else (x, factors),
            self._like(x, label),
            label,
            head_dim=head_dim,
            rotary_dim=rotary_dim,
            theta=theta,
            scale=scale,
            half_split=int(half_split),
            temperature=temperature,
            temperature_length=temperature_length,
        )

    def store(self, rows: Sequence[tuple[Tensor, Tensor]], label: str) -> None:
        """Keep rows of this step for later ones: up to three pairs of rows and a cache.
        A cache takes at least a whole step."""
        for x, cache in rows:
            expect(x.shape[1] == cache.shape[1], f"{label}: {x.shape} does not fit {cache.shape}")
            expect(x.shape[0] <= cache.shape[0], f"{label}: {cache.shape} is less than a step")
        inputs, outputs = zip(*rows, strict=True)
        self._append("store", inputs, outputs, label, {})

    def attention(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        gains: Tensor,
        label: str,
        *,
        layer: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        window: int = 0,
        scale: float | None = None,
        softcap: float = 0.0,
        sinks: Tensor | None = None,
        bias: Tensor | None = None,
        bias_before: int = 0,
        bidirectional: bool = False,
        cross: bool = False,
        first: int = 0,
    ) -> Tensor:
        """`scale` multiplies q . k; left out: 1 / sqrt(head_dim). `softcap`: 0 is none.

        `bias` [heads, columns] by the distance from a query to a key; column `bias_before` is that
        of a distance of 0. `bidirectional`: tokens see those behind them too. `cross`: the caches
        hold an encoder's keys and values, which are all seen. `first`: of causal attention, the
        first position that is seen, which is no later than that of any token.
        """
        params = {
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "scale": 1.0 / math.sqrt(head_dim) if scale is None else scale,
            "window": window,
            "layer": layer,
            "softcap": softcap,
            "bias_before": bias_before,
            "bidirectional": int(bidirectional),
            "cross": int(cross),
            "first": first,
        }
        expect_attention(label, q, (k_cache, v_cache), sinks, bias, params)
        operands = _without_trailing(q, k_cache, v_cache, gains, sinks, bias)
        return self._op("attention", operands, self._like(q, label), label, **params)

    def causal_conv(self, x: Tensor, weight: Tensor, state: Tensor, label: str) -> Tensor:
        """Compute a convolution of each column with its own taps, over the tokens up to each row's
        own. `weight` [columns * taps], those of a column side by side; `state` [slots * (taps - 1),
        columns]."""
        taps, rest = divmod(weight.shape[0], x.shape[1])
        expect(not rest and taps > 1, f"{label}: {weight.shape} are no taps of {x.shape}")
        fits = state.shape[1] == x.shape[1] and state.shape[0] % (taps - 1) == 0
        expect(fits and state.dtype == "f32", f"{label}: {state.shape} is no state of {x.shape}")
        y = self._like(x, label)
        self._append("causal_conv", (x, weight), (y, state), label, {"taps": taps})
        return y

    def delta_rule(
        self,
        qkv: Tensor,
        decay: Tensor,
        beta: Tensor,
        rate: Tensor,
        bias: Tensor,
        state: Tensor,
        label: str,
        *,
        key_heads: int,
        key_dim: int,
        tiled: bool = False,
    ) -> Tensor:
        """Return [T, heads * value_dim]. `decay`, `beta` [T, heads]; `rate`, below 0, and `bias`
        [heads]; `state` [slots * heads * key_dim, value_dim]."""
        heads, value_dim = decay.shape[1], state.shape[1]
        expect(key_heads > 0 and heads % key_heads == 0, f"{label}: {key_heads} of {heads} heads")
        expect_alike(beta, decay, label)
        expect(decay.rows == qkv.rows, f"{label}: rows of {decay.rows} and of {qkv.rows}")
        width = 2 * key_heads * key_dim + heads * value_dim
        expect(qkv.shape[1] == width, f"{label}: {qkv.shape} is not of {width} columns")
        for vector in (rate, bias):
            expect(vector.shape == (heads,), f"{label}: {vector.shape} for {heads} heads")
        fits = state.shape[0] % (heads * key_dim) == 0 and state.dtype == "f32"
        expect(fits, f"{label}: {state.shape} is no state of {heads} heads")
        y = self._scratch(label, heads * value_dim, rows=qkv.rows)
        params: dict[str, float] = {
            "heads": heads,
            "key_heads": key_heads,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "tiled": int(tiled),
        }
        self._append("delta_rule", (qkv, decay, beta, rate, bias), (y, state), label, params)
        return y

    def route(
        self,
        logits: Tensor,
        label: str,
        *,
        count: int,
        bias: Tensor | None = None,
        gains: Tensor | None = None,
        switches: Tensor | None = None,
        layer: int = 0,
        sigmoid: bool = False,
        late: bool = False,
        normalized: bool = False,
        factor: float = 1.0,
        groups: int = 1,
        chosen_groups: int = 1,
    ) -> tuple[Tensor, Tensor]:
        """Choose `count` experts for each token by logits [T, experts]; return them and their
        shares, [T, count] each. Other parameters as of the op's row."""
        experts = logits.shape[1]
        expect(0 < count <= experts, f"{label}: {count} of {experts} experts")
        expect(not (sigmoid and late), f"{label}: shares of logits and by a sigmoid")
        in_groups = groups > 0 and experts % groups == 0 and 0 < chosen_groups <= groups
        enough = in_groups and count <= experts // groups * chosen_groups
        expect(enough, f"{label}: {count} of {experts} experts, {chosen_groups} of {groups} groups")
        for vector in (one for one in (bias, gains) if one is not None):
            expect(vector.shape == (experts,), f"{label}: {vector.shape} for {experts} experts")
        if switches is not None:
            fits = switches.shape[1] == 2 * experts and 0 <= layer < switches.shape[0]
            expect(fits, f"{label}: layer {layer} of {switches.shape} for {experts} experts")
        chosen = self._scratch(f"{label}.experts", count)
        outputs = chosen, self._scratch(f"{label}.shares", count)
        params = {
            "layer": layer,
            "sigmoid": int(sigmoid),
            "late": int(late),
            "normalized": int(normalized),
            "factor": factor,
            "groups": groups,
            "chosen_groups": chosen_groups,
        }
        inputs = _without_trailing(logits, bias, gains, switches)
        self._append("route", inputs, outputs, label, params)
        return outputs

    def expert_places(self, experts: Tensor, label: str, *, count: int) -> tuple[Tensor, Tensor]:
        """Return the places [T, k] of choices among `count` experts in their order, and where each
        expert begins [1, count + 1]."""
        places = self._like(experts, label)
        starts = self._tensor(f"{label}.starts", Kind.SCRATCH, "f32", (1, count + 1))
        self._append("expert_places", (experts,), (places, starts), label, {})
        return places, starts

    def expert_rows(self, x: Tensor, places: Tensor, weight: Tensor, label: str) -> Tensor:
        """Return a row for each choice [T * k, K], in the order of the experts: what products with
        `weight` take, quantized as they would."""
        taken = self._activations(x, weight)
        key = taken.id, places.id
        if key not in self._expert_rows:  # gate and up share them
            name = f"{label}.a8" if taken.dtype == "a8" else label
            y = self._scratch(name, x.shape[1], dtype=taken.dtype, per_token=places.shape[1])
            self._expert_rows[key] = self._op("expert_rows", (taken, places), y, name)
        return self._expert_rows[key]

    def expert_matmul(self, x: Tensor, weight: Tensor, starts: Tensor, label: str) -> Tensor:
        """Multiply each row [T * k, K] by the weight of its expert, [N, K] of [experts * N, K]; x
        is quantized first as by `matmul`."""
        experts = starts.shape[1] - 1
        outputs, rest = divmod(weight.shape[0], experts)
        fits = not rest and x.shape[1] == weight.shape[1] and outputs % TILE_ROWS == 0
        expect(fits, f"{label}: {x.shape} by {weight.shape} of {experts} experts")
        taken = x if x.dtype == "a8" else self._activations(x, weight)
        y = self._scratch(label, outputs, per_token=x.per_token)
        return self._op("expert_matmul", (taken, weight, starts), y, label)

    def expert_bias(self, x: Tensor, bias: Tensor, starts: Tensor, label: str) -> Tensor:
        """Add to each row [T * k, N] what its expert adds, of [experts * N]."""
        expect(bias.shape == (x.shape[1] * (starts.shape[1] - 1),), f"{label}: {bias.shape}")
        return self._op("expert_bias", (x, bias, starts), self._like(x, label), label)

    def expert_sum(self, x: Tensor, places: Tensor, shares: Tensor, label: str) -> Tensor:
        """Return the weighed sum of the rows that each token has, [T * k, N] -> [T, N]."""
        expect(x.per_token == places.shape[1], f"{label}: {x.per_token} rows a token")
        expect_alike(shares, places, label)
        y = self._scratch(label, x.shape[1])
        return self._op("expert_sum", (x, places, shares), y, label)

    def token_gate(self, x: Tensor, h: Tensor, weight: Tensor, label: str) -> Tensor:
        """Multiply each row of x [T, N] by a gate that `weight` [K] makes of a row of h [T, K]."""
        expect(weight.shape == (h.shape[1],), f"{label}: {weight.shape} on {h.shape}")
        expect(h.shape[0] == x.shape[0], f"{label}: {h.shape} gates {x.shape}")
        return self._op("token_gate", (x, h, weight), self._like(x, label), label)

    def sigmoid_mul(self, gate: Tensor, x: Tensor, label: str) -> Tensor:
        return self._op("sigmoid_mul", (gate, x), self._like(x, label), label)

    def silu_mul(self, gate: Tensor, up: Tensor, label: str) -> Tensor:
        return self._op("silu_mul", (gate, up), self._like(gate, label), label)

    def clamped_silu_mul(
        self, gate: Tensor, up: Tensor, label: str, *, alpha: float, limit: float
    ) -> Tensor:
        expect(limit > 0, f"{label}: a limit of {limit}")
        y = self._like(gate, label)
        return self._op("clamped_silu_mul", (gate, up), y, label, alpha=alpha, limit=limit)

    def gelu_mul(self, gate: Tensor, up: Tensor, label: str) -> Tensor:
        return self._op("gelu_mul", (gate, up), self._like(gate, label), label)

    def gelu(self, x: Tensor, label: str) -> Tensor:
        return self._op("gelu", (x,), self._like(x, label), label)

    def gelu_erf(self, x: Tensor, label: str) -> Tensor:
        return self._op("gelu_erf", (x,), self._like(x, label), label)

    def silu(self, x: Tensor, label: str) -> Tensor:
        return self._op("silu", (x,), self._like(x, label), label)

    def relu(self, x: Tensor, label: str) -> Tensor:
        return self._op("relu", (x,), self._like(x, label), label)

    def add(self, a: Tensor, b: Tensor, label: str) -> Tensor:
        return self._op("add", (a, b), self._like(a, label), label)

    def mul(self, a: Tensor, b: Tensor, label: str) -> Tensor:
        return self._op("mul", (a, b), self._like(a, label), label)

    def shift(self, x: Tensor, shifts: Tensor, label: str, *, layer: int) -> Tensor:
        """Add to each row [T, N] what its sequence has for the layer, of [slots * layers, N]."""
        fits = shifts.shape[1] == x.shape[1] and 0 <= layer < shifts.shape[0]
        expect(fits, f"{label}: layer {layer} of {shifts.shape} on {x.shape}")
        y = self._like(x, f"{label}.shifted")
        return self._op("shift", (x, shifts), y, label, layer=layer)

    def add_bias(self, x: Tensor, bias: Tensor, label: str) -> Tensor:
        expect(bias.shape == (x.shape[1],), f"{label}: {bias.shape} on {x.shape}")
        return self._op("add_bias", (x, bias), self._like(x, label), label)

    def scale(
        self, x: Tensor, label: str, *, factor: float = 1.0, weight: Tensor | None = None
    ) -> Tensor:
        if weight is not None:
            expect(weight.shape == (x.shape[1],), f"{label}: {weight.shape} on {x.shape}")
        inputs = (x,) if weight is None else (x, weight)
        return self._op("scale", inputs, self._like(x, label), label, factor=factor)

    def softcap(self, x: Tensor, label: str, *, scale: float, cap: float) -> Tensor:
        return self._op("softcap", (x,), self._like(x, label), label, scale=scale, cap=cap)

    def sparsify(self, x: Tensor, label: str, *, deviations: float) -> Tensor:
        return self._op("sparsify", (x,), self._like(x, label), label, deviations=deviations)

    def columns(
        self, x: Tensor, label: str, *, first: int, count: int, run: int = 0, stride: int = 0
    ) -> Tensor:
        """Take `count` columns that follow each other, or with `run` that many of every `stride`
        columns."""
        run, stride = run or count, stride or count
        fits = first >= 0 and count > 0 and run <= stride and count % run == 0
        last = first + (count // run - 1) * stride + run if fits else 0
        expect(fits and last <= x.shape[1], f"{label}: columns {first}..{last - 1} of {x.shape}")
        y = self._scratch(label, count, rows=x.rows, per_token=x.per_token)
        return self._op("columns", (x,), y, label, first=first, run=run, stride=stride)

    def concat(self, a: Tensor, b: Tensor, label: str) -> Tensor:
        expect(a.rows == b.rows, f"{label}: rows of {a.rows} beside rows of {b.rows}")
        y = self._scratch(label, a.shape[1] + b.shape[1], rows=a.rows)
        return self._op("concat", (a, b), y, label)

    def match_rms(self, x: Tensor, target: Tensor, eps: float, label: str) -> Tensor:
        return self._op("match_rms", (x, target), self._like(x, label), label, eps=eps)

    def altup_predict(self, x: Tensor, coefs: Tensor, label: str) -> Tensor:
        streams = math.isqrt(coefs.shape[1])
        fits = streams**2 == coefs.shape[1] and x.shape[1] % streams == 0 and x.rows == coefs.rows
        expect(fits, f"{label}: {coefs.shape} does not mix the streams of {x.shape}")
        return self._op("altup_predict", (x, coefs), self._like(x, label), label)

    def altup_correct(
        self, x: Tensor, activated: Tensor, coefs: Tensor, label: str, *, active: int
    ) -> Tensor:
        streams = coefs.shape[1]
        fits = x.shape[1] == streams * activated.shape[1] and x.rows == activated.rows == coefs.rows
        expect(fits, f"{label}: {streams} streams of {activated.shape} are not {x.shape}")
        expect(0 <= active < streams, f"{label}: stream {active} of {streams}")
        y = self._like(x, label)
        return self._op("altup_correct", (x, activated, coefs), y, label, active=active)

    def add_streams(self, x: Tensor, a: Tensor, label: str, *, first: int) -> Tensor:
        fits = x.shape[1] % a.shape[1] == 0 and x.rows == a.rows
        expect(fits, f"{label}: {a.shape} is no stream of {x.shape}")
        return self._op("add_streams", (x, a), self._like(x, label), label, first=first)

    def take_label(self) -> str:
        """Return the label of the last op, which gets another: what comes next has its name."""
        last = self._ops[-1]
        self._ops[-1] = replace(last, label=f"{last.label}.unshifted")
        return last.label

    def layer_end(self, x: Tensor) -> Tensor:
        """Mark `x`, just made, as the input of the next layer, which the head could read."""
        made = bool(self._ops) and self._ops[-1].outputs == (x.id,)
        expect(made, f"{x.name} does not come out of the last op")
        self._layer_ends.append(len(self._ops) - 1)
        return x

    def output_rows(self, x: Tensor, label: str) -> Tensor:
        y = self._scratch(label, x.shape[1], rows="outputs")
        return self._op("output_rows", (x,), y, label)

    def finish(self, logits: Tensor) -> Plan:
        """Place the scratch tensors and freeze. `logits` stays readable after the step."""
        lives = lifetimes(self._tensors, [(op,) for op in self._ops], logits.id)
        offsets, arena = place(lives)
        tensors = placed(self._tensors, offsets)
        return Plan(
            max_tokens=self._bucket.max_tokens,
            max_outputs=self._bucket.max_outputs,
            sliced=self.sliced,
            shifted=self.shift_slots > 0,
            tensors=tensors,
            ops=tuple(self._ops),
            scratch_bytes=arena,
            logits=logits.id,
            layer_ends=tuple(self._layer_ends),
        )

    def _activations(self, x: Tensor, weight: Tensor) -> Tensor:
        integer = self._integer_activations and FORMATS[weight.dtype].integers
        if not integer or x.shape[1] % A8_BLOCK:
            return x
        if x.id not in self._quantized:  # q, k and v share one
            name, columns = f"{x.name}.a8", x.shape[1]
            y = self._scratch(name, columns, dtype="a8", rows=x.rows, per_token=x.per_token)
            self._quantized[x.id] = self._op("quantize", (x,), y, y.name)
        return self._quantized[x.id]

    def _tensor(
        self,
        name: str,
        kind: Kind,
        dtype: str,
        shape: tuple[int, ...],
        rows: Rows = "fixed",
        fill: float = 0.0,
        block: int = 0,
        ring: int = 0,
        per_token: int = 1,
    ) -> Tensor:
        expect(name not in self._by_name, f"two tensors are called {name}")
        number = len(self._tensors)
        tensor = Tensor(
            number,
            name,
            kind,
            dtype,
            shape,
            rows,
            per_token=per_token,
            fill=fill,
            block=block,
            ring=ring,
        )
        self._tensors.append(tensor)
        self._by_name[name] = tensor
        return tensor

    def _scratch(
        self,
        name: str,
        columns: int,
        *,
        dtype: str = "f32",
        rows: Rows = "tokens",
        per_token: int = 1,
    ) -> Tensor:
        count = self._bucket.max_outputs if rows == "outputs" else self._bucket.max_tokens
        size = (count * per_token, columns)
        return self._tensor(name, Kind.SCRATCH, dtype, size, rows, per_token=per_token)

    def _like(self, x: Tensor, name: str) -> Tensor:
        return self._scratch(name, x.shape[1], rows=x.rows, per_token=x.per_token)

    def _op(
        self,
        name: str,
        inputs: tuple[Tensor | None, ...],
        output: Tensor,
        label: str,
        **params: float,
    ) -> Tensor:
        self._append(name, inputs, (output,), label, params)
        return output

    def _append(
        self,
        name: str,
        inputs: tuple[Tensor | None, ...],
        outputs: tuple[Tensor, ...],
        label: str,
        params: dict[str, float],
    ) -> None:
        spec = OPS[name]
        expect(set(params) == set(spec.params), f"{label}: {name} takes {', '.join(spec.params)}")
        if spec.form != "custom":
            for x in inputs:
                assert x is not None, f"{label}: {name} has no operand to leave out"
                expect_alike(x, outputs[0], label)
        taken = tuple(LEFT_OUT if t is None else t.id for t in inputs)
        ids = taken, tuple(t.id for t in outputs)
        self._ops.append(Op(name, *ids, MappingProxyType(params), label))


def _without_trailing(*operands: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return the operands without those that are left out at the end."""
    count = max(i + 1 for i, operand in enumerate(operands) if operand is not None)
    return operands[:count]
