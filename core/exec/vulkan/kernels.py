"""From an op of the plan to dispatches: shader, constants, buffers and number of workgroups.

One function an op, named as in the op table. Grids are sized for the bucket's largest step; the
shaders skip rows that the step does not use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.vulkan.attention import attention
from llm_lite.core.exec.vulkan.dispatch import ELEMENT_WORK, Binder, Call, Dispatch
from llm_lite.core.exec.vulkan.fusion import GATES, Group
from llm_lite.core.exec.vulkan.memory import first_rows
from llm_lite.core.exec.vulkan.products import Norm, Product
from llm_lite.core.gpu.pipelines import BufferRange
from llm_lite.core.plan.ops import OPS
from llm_lite.core.plan.plan import Op, Plan, Tensor, tensor_row_bytes
from llm_lite.core.quant.formats import FORMATS
from llm_lite.core.records import replace

Kernel = Callable[[Call], list[Dispatch]]


def dispatches(
    binder: Binder,
    op: Op,
    plan: Plan,
    vector: NDArray[np.float32] | None = None,
) -> list[Dispatch]:
    """Return the dispatches of one op of the plan, independent of each other. `vector`: rope's
    factors or attention's sinks, which become a part of tables."""
    kernel = _BY_FORM.get(OPS[op.name].form) or _KERNELS[op.name]
    return kernel(_call(binder, op, plan, vector))


def group_dispatches(
    binder: Binder,
    group: Group,
    plan: Plan,
    vector: NDArray[np.float32] | None = None,
) -> list[Dispatch]:
    """Return the dispatches of ops that are done at once, as `dispatches` does for one."""
    if len(group.ops) == 1 and group.norm is None:
        return dispatches(binder, group.ops[0], plan, vector)
    calls = [_call(binder, op, plan, vector) for op in group.ops]
    if group.one("store"):
        return _store(calls[-1], {call.outputs[0].id: call for call in calls[:-1]})
    if group.one("quantize"):
        return _quantize_norm(*calls)
    return _fused_product(group, calls, plan.tensors)


def _call(
    binder: Binder,
    op: Op,
    plan: Plan,
    vector: NDArray[np.float32] | None,
) -> Call:
    inputs = tuple(plan.tensors[i] for i in op.given)
    outputs = tuple(plan.tensors[i] for i in op.outputs)
    return Call(binder, op, inputs, outputs, vector)


def _embed(c: Call) -> list[Dispatch]:
    return _lookup(c)


def _position_rows(c: Call) -> list[Dispatch]:
    return _lookup(c, LAST_ROW=c.inputs[0].shape[0] - 1, SHIFT=int(c.p["first"]), **c.pages())


def _type_rows(c: Call) -> list[Dispatch]:
    last = c.inputs[0].shape[0] - 1
    return _lookup(c, LAST_ROW=last, SEPARATOR=int(c.p["separator"]), **c.pages())


def _lookup(c: Call, **constants: int) -> list[Dispatch]:
    """Look up rows of a table; each dispatch has a part of the table."""
    (table,), (y,) = c.inputs, c.outputs
    lanes, columns = c.binder.tuning.lanes, table.shape[1]
    groups = (-(-(-(-columns // 32) * 4) // lanes), c.rows)
    return [
        c.dispatch(
            f"{c.op.name}.{FORMATS[table.dtype].multiplied}",
            {"Weight": part.place, "Y": c.binder.tensor(y)},
            groups,
            c.rows * columns * ELEMENT_WORK,
            LANES=lanes,
            K=columns,
            FIRST_ROW=part.first,
            ROWS=part.rows,
            **constants,
        )
        for part in c.binder.matrix(table.name)
    ]


def _table_rows(c: Call) -> list[Dispatch]:
    """Copy rows of a table, which the host has written to a buffer."""
    columns = c.outputs[0].shape[1]
    rows = c.binder.host_rows(c.inputs[0].name)
    buffers = {"X": rows, "Y": c.binder.tensor(c.outputs[0])}
    sizes = {"COLUMNS": columns, "X_COLUMNS": columns, "FIRST": 0}
    return c.elementwise("columns", buffers, columns, **sizes)


def _rms_norm(c: Call) -> list[Dispatch]:
    x, width = c.inputs[0], int(c.p["width"])
    buffers = {"X": c.binder.tensor(x), "Y": c.binder.tensor(c.outputs[0])}
    variant = "rms_norm"
    if len(c.inputs) > 1:
        variant, buffers["Weight"] = "rms_norm.weight", c.binder.vector(c.inputs[1].name)
    lanes, groups = c.binder.tuning.reduce_lanes, x.shape[1] // width
    work = c.rows * x.shape[1] * ELEMENT_WORK
    sizes = {"LANES": lanes, "K": width, "EPS": float(c.p["eps"]), "GROUPS": groups}
    return [c.dispatch(c.reducing(variant), buffers, (c.rows, groups), work, **sizes)]


def _layer_norm(c: Call) -> list[Dispatch]:
    x, *vectors = c.inputs
    buffers = {"X": c.binder.tensor(x), "Y": c.binder.tensor(c.outputs[0])}
    places = map(c.binder.vector, (vector.name for vector in vectors))
    buffers |= dict(zip(("Weight", "Bias"), places, strict=False))
    variant = c.reducing("layer_norm.bias" if "Bias" in buffers else "layer_norm")
    work = c.rows * x.shape[1] * ELEMENT_WORK
    sizes = {"LANES": c.binder.tuning.reduce_lanes, "K": x.shape[1], **c.constants()}
    return [c.dispatch(variant, buffers, (c.rows, 1), work, **sizes)]


def _quantize(c: Call) -> list[Dispatch]:
    columns, lanes = c.inputs[0].shape[1], c.binder.tuning.block_lanes
    sizes = {"K": columns, "BLOCK_LANES": lanes}
    return c.elementwise("quantize", c.operands(("X", "Y")), columns // 32 * lanes, **sizes)


def _quantize_norm(norm: Call, c: Call) -> list[Dispatch]:
    """Quantize rows after their norm: a workgroup a row, as one of `rms_norm`."""
    x, columns, tuning = norm.inputs[0], norm.inputs[0].shape[1], c.binder.tuning
    buffers = {
        "X": c.binder.tensor(x),
        "Weight": c.binder.vector(norm.inputs[1].name),
        "Y": c.binder.tensor(c.outputs[0]),
    }
    sizes = {"LANES": tuning.reduce_lanes, "BLOCK_LANES": tuning.block_lanes, "K": columns}
    work, eps = c.rows * columns * ELEMENT_WORK, float(norm.p["eps"])
    variant = c.reducing("quantize.norm")
    return [c.dispatch(variant, buffers, (1, c.rows), work, EPS=eps, **sizes)]


def _matmul(c: Call) -> list[Dispatch]:
    return _product(c).dispatches()


def _product(c: Call) -> Product:
    (x, weight), (y,) = c.inputs, c.outputs
    parts = first_rows(c.binder.matrix(weight.name), y.shape[1])
    return Product(c, x, weight, parts, c.binder.tensor(y), y.shape[1])


def _fused_product(
    group: Group, calls: Sequence[Call], tensors: tuple[Tensor, ...]
) -> list[Dispatch]:
    """Dispatch products of one tensor with the norm before them, a gate or the residual behind."""
    products = [call for call in calls if call.op.name == "matmul"]
    tail, binder = calls[-1], calls[-1].binder
    made = _product(products[0])
    if len(products) > 1:
        made = _stacked(made, products)
    if group.norm:
        x, weight = (tensors[i] for i in group.norm.inputs)
        made = replace(made, x=x, norm=Norm(weight.name, group.norm.params["eps"]))
    if tail.op.name != "matmul":
        made = replace(made, y=binder.tensor(tail.outputs[0]))
    if tail.op.name in GATES:
        made = replace(made, gate=tail.op.name)
    if tail.op.name == "add":
        others = [t for t in tail.inputs if t.id != products[0].outputs[0].id]
        made = replace(made, residual=binder.tensor(others[0]))
    return made.dispatches()


def _stacked(made: Product, products: Sequence[Call]) -> Product:
    """Return adjacent matrices as one product; their results are adjacent too, if they are needed
    at all."""
    part = made.call.binder.stack([call.inputs[1].name for call in products])
    if part is None:
        raise ValueError(f"{made.weight.name} and what it is grouped with do not lie together")
    results = [made.call.binder.tensor(call.outputs[0]) for call in products]
    buffer, offset, _ = results[0]
    return replace(made, parts=[part], y=(buffer, offset, sum(size for *_, size in results)))


def _rope(c: Call) -> list[Dispatch]:
    x = c.inputs[0]
    buffers = {
        "X": c.binder.tensor(x),
        "Frequencies": _frequencies(c),
        "Y": c.binder.tensor(c.outputs[0]),
    }
    sizes = {**_rotary(c), **_temperature(c), **c.pages()}
    return c.elementwise("rope", buffers, x.shape[1] // 2, COLUMNS=x.shape[1], **sizes)


def _rotary(c: Call) -> dict[str, int]:
    names = ("head_dim", "rotary_dim", "half_split")
    return {name.upper(): int(c.p[name]) for name in names}


def _temperature(c: Call) -> dict[str, int | float]:
    """Return the constants of the temperature; {} without one, so that all other models share their
    pipelines."""
    length = int(c.p["temperature_length"])
    given = {"TEMPERATURE": float(c.p["temperature"]), "TEMPERATURE_LENGTH": length}
    return given if c.p["temperature"] else {}


def _frequencies(c: Call) -> BufferRange:
    pairs = int(c.p["rotary_dim"]) // 2
    factors_name = c.inputs[1].name if len(c.inputs) > 1 else ""
    key = f"rope {pairs} {c.p['theta']} {c.p['scale']} {factors_name}"
    return c.binder.table(key, rope_frequencies(pairs, c.p["theta"], c.p["scale"], c.vector))


def rope_frequencies(
    pairs: int, theta: float, scale: float, factors: NDArray[np.float32] | None
) -> NDArray[np.uint32]:
    """Return turns a position, modulo 1, in units of 2^-64: uint32 [pairs, (low, high)]."""
    frequency = np.float64(theta) ** (-np.arange(pairs) / pairs)
    if factors is not None:
        frequency = frequency / factors
    turns = [int(f * scale / (2 * math.pi) * 2**64) % 2**64 for f in frequency.tolist()]
    return np.array([(t & 0xFFFFFFFF, t >> 32) for t in turns], np.uint32).reshape(-1, 2)


def _store(c: Call, ropes: Mapping[int, Call] = MappingProxyType({})) -> list[Dispatch]:
    """Store all pairs of rows and cache in one dispatch; a place that is left out has no columns.
    `ropes`: by the rows that they make, those not yet done."""
    pairs = list(zip(c.inputs, c.outputs, strict=True))
    buffers: dict[str, BufferRange] = {}
    sizes: dict[str, int | float] = {**c.pages()}
    items = 0
    for place, letter in enumerate("ABC"):
        x, cache = pairs[place] if place < len(pairs) else pairs[0]
        rope = ropes.get(x.id)
        rows = rope.inputs[0] if rope else x
        buffers[f"Rows{letter}"] = c.binder.tensor(rows)
        buffers[f"Cache{letter}"] = c.binder.tensor(cache)
        if place < len(pairs):
            sizes |= _store_sizes(cache, letter)
            items += -(-cache.shape[1] // max(2, 2 * cache.block))
            sizes |= {f"TURN_{letter}": 1, **_temperature(rope)} if rope else {}
    any_rope = next(iter(ropes.values()), None)
    sizes |= _rotary(any_rope) if any_rope else {}
    buffers["Frequencies"] = _frequencies(any_rope) if any_rope else buffers["RowsA"]
    buffers["Turned"] = c.binder.tensor(c.inputs[2]) if "TURN_C" in sizes else buffers["CacheA"]
    return c.elementwise("store", buffers, items, **sizes)


def _store_sizes(cache: Tensor, letter: str) -> dict[str, int]:
    rows, columns = cache.shape
    sizes = {"TYPE": ("f32", "f16", "i8", "i4").index(cache.dtype), "COLUMNS": columns}
    sizes |= {"CACHE_ROWS": rows, "RING_ROWS": cache.ring}
    if cache.block:
        sizes["BLOCK"] = cache.block
    return {f"{name}_{letter}": value for name, value in sizes.items()}


def _add_bias(c: Call) -> list[Dispatch]:
    columns = c.outputs[0].shape[1]
    buffers = {
        "X": c.binder.tensor(c.inputs[0]),
        "Bias": c.binder.vector(c.inputs[1].name),
        "Y": c.binder.tensor(c.outputs[0]),
    }
    return c.elementwise("add_bias", buffers, columns, COLUMNS=columns)


def _shift(c: Call) -> list[Dispatch]:
    shifts = c.inputs[1]
    slots = c.binder.program.pages.slots if c.binder.program.pages else 1
    sizes = {"SLOT_LAYERS": shifts.shape[0] // slots, **c.pages()}
    return c.columnwise(**sizes)


def _scale(c: Call) -> list[Dispatch]:
    buffers = {"X": c.binder.tensor(c.inputs[0]), "Y": c.binder.tensor(c.outputs[0])}
    variant = "scale"
    if len(c.inputs) > 1:
        variant, buffers["Weight"] = "scale.weight", c.binder.vector(c.inputs[1].name)
    columns = c.outputs[0].shape[1]
    return c.elementwise(variant, buffers, columns, COLUMNS=columns, FACTOR=float(c.p["factor"]))


def _causal_conv(c: Call) -> list[Dispatch]:
    """Dispatch a lane for each column, which goes through all tokens."""
    (x, weight), (y, state), lanes = c.inputs, c.outputs, c.binder.tuning.lanes
    buffers = {
        "X": c.binder.tensor(x),
        "Weight": c.binder.vector(weight.name),
        "Y": c.binder.tensor(y),
        "State": c.binder.tensor(state),
    }
    columns, taps = x.shape[1], int(c.p["taps"])
    sizes = {"LANES": lanes, "COLUMNS": columns, "TAPS": taps, **c.states()}
    groups, work = (-(-columns // lanes), 1), c.rows * columns * taps
    return [c.dispatch("causal_conv", buffers, groups, work, **sizes)]


def _delta_rule(c: Call) -> list[Dispatch]:
    """Dispatch a workgroup for each head and as many columns of its state as there are lanes; each
    goes through all tokens."""
    qkv, decay, beta, rate, bias = c.inputs
    y, state = c.outputs
    buffers = {
        "Qkv": c.binder.tensor(qkv),
        "Decay": c.binder.tensor(decay),
        "Beta": c.binder.tensor(beta),
        "Rate": c.binder.vector(rate.name),
        "Bias": c.binder.vector(bias.name),
        "Y": c.binder.tensor(y),
        "State": c.binder.tensor(state),
    }
    lanes, columns = c.binder.tuning.lanes, state.shape[1]
    heads, key_dim = int(c.p["heads"]), int(c.p["key_dim"])
    sizes = {"LANES": lanes, **c.constants(), **c.states()}
    groups, work = (-(-columns // lanes), heads), 4 * c.rows * heads * key_dim * columns
    return [c.dispatch("delta_rule", buffers, groups, work, **sizes)]


def _route(c: Call) -> list[Dispatch]:
    """Dispatch a workgroup for each token."""
    logits, (experts, shares) = c.inputs[0], c.outputs
    bias, gains, switches = (c.optional(name) for name in ("bias", "gains", "switches"))
    buffers = {
        "Logits": c.binder.tensor(logits),
        "Bias": c.binder.vector(bias.name) if bias else c.binder.tensor(logits),
        "Gains": c.binder.vector(gains.name) if gains else c.binder.tensor(logits),
        "Switches": c.binder.tensor(switches or logits),
        "Experts": c.binder.tensor(experts),
        "Shares": c.binder.tensor(shares),
    }
    count, columns = experts.shape[1], logits.shape[1]
    sizes = {"EXPERTS": columns, "COUNT": count, **c.constants()}
    sizes |= {"BIASED": int(bias is not None), "GAINED": int(gains is not None), **c.pages()}
    if switches is not None:
        pages = c.binder.program.pages
        sizes |= {"SWITCHED": 1, "SLOT_LAYERS": switches.shape[0] // (pages.slots if pages else 1)}
    work, lanes = c.rows * columns * count, c.binder.tuning.reduce_lanes
    return [c.dispatch("route", buffers, (c.rows, 1), work, LANES=lanes, **sizes)]


def _expert_places(c: Call) -> list[Dispatch]:
    """Dispatch one workgroup, which counts for all experts."""
    count, experts = c.inputs[0].shape[1], c.outputs[1].shape[1] - 1
    sizes = {"LANES": c.binder.tuning.most_lanes, "EXPERTS": experts, "COUNT": count}
    buffers, work = c.named_operands(), 2 * c.rows * count * experts
    return [c.dispatch("expert_places", buffers, (1, 1), work, **sizes)]


def _expert_rows(c: Call) -> list[Dispatch]:
    words = tensor_row_bytes(c.outputs[0]) // 4
    return c.elementwise("expert_rows", c.named_operands(), words, COLUMNS=words)


def _expert_matmul(c: Call) -> list[Dispatch]:
    (x, weight, starts), (y,) = c.inputs, c.outputs
    parts = c.binder.matrix(weight.name)
    return Product(c, x, weight, parts, c.binder.tensor(y), y.shape[1], experts=starts).dispatches()


def _expert_bias(c: Call) -> list[Dispatch]:
    (x, bias, starts), (y,) = c.inputs, c.outputs
    buffers = {
        "X": c.binder.tensor(x),
        "Bias": c.binder.vector(bias.name),
        "Starts": c.binder.tensor(starts),
        "Y": c.binder.tensor(y),
    }
    columns, experts = y.shape[1], starts.shape[1] - 1
    return c.elementwise("expert_bias", buffers, columns, COLUMNS=columns, EXPERTS=experts)


def _expert_sum(c: Call) -> list[Dispatch]:
    return c.columnwise(COUNT=c.inputs[1].shape[1])


def _token_gate(c: Call) -> list[Dispatch]:
    """Dispatch a workgroup for each row."""
    (x, h, weight), (y,) = c.inputs, c.outputs
    buffers = {
        "X": c.binder.tensor(x),
        "H": c.binder.tensor(h),
        "Weight": c.binder.vector(weight.name),
        "Y": c.binder.tensor(y),
    }
    columns, inputs, lanes = y.shape[1], h.shape[1], c.binder.tuning.reduce_lanes
    work, sizes = c.rows * (columns + inputs), {"COLUMNS": columns, "K": inputs}
    return [c.dispatch("token_gate", buffers, (c.rows, 1), work, LANES=lanes, **sizes)]


def _columns(c: Call) -> list[Dispatch]:
    return c.columnwise(X_COLUMNS=c.inputs[0].shape[1])


def _concat(c: Call) -> list[Dispatch]:
    return c.columnwise(A_COLUMNS=c.inputs[0].shape[1])


def _altup_predict(c: Call) -> list[Dispatch]:
    streams = math.isqrt(c.inputs[1].shape[1])
    return c.columnwise(STREAMS=streams)


def _altup_correct(c: Call) -> list[Dispatch]:
    return c.columnwise(N=c.inputs[1].shape[1])


def _add_streams(c: Call) -> list[Dispatch]:
    return c.columnwise(N=c.inputs[1].shape[1])


def _output_rows(c: Call) -> list[Dispatch]:
    return c.columnwise(**c.pages())


_BY_FORM: Mapping[str, Kernel] = {"elementwise": Call.columnwise, "rowwise": Call.rowwise}
# Of ops whose form is their own.
_KERNELS: Mapping[str, Kernel] = {
    "embed": _embed,
    "table_rows": _table_rows,
    "position_rows": _position_rows,
    "type_rows": _type_rows,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "quantize": _quantize,
    "matmul": _matmul,
    "rope": _rope,
    "store": _store,
    "attention": attention,
    "add_bias": _add_bias,
    "shift": _shift,
    "scale": _scale,
    "causal_conv": _causal_conv,
    "delta_rule": _delta_rule,
    "route": _route,
    "expert_places": _expert_places,
    "expert_rows": _expert_rows,
    "expert_matmul": _expert_matmul,
    "expert_bias": _expert_bias,
    "expert_sum": _expert_sum,
    "token_gate": _token_gate,
    "columns": _columns,
    "concat": _concat,
    "altup_predict": _altup_predict,
    "altup_correct": _altup_correct,
    "add_streams": _add_streams,
    "output_rows": _output_rows,
}
