"""From an op of the plan to dispatches: shader, constants, buffers and number of workgroups.

One function an op, named as in the op table. Grids are sized for the bucket's largest step; the
shaders skip rows that the step does not use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from core.exec.vulkan_dispatch import ELEMENT_WORK, Binder, Call, Dispatch
from core.exec.vulkan_memory import WeightPart
from core.exec.vulkan_tuning import VECTOR
from core.gpu.pipelines import BufferRange
from core.plan.plan import Op, Tensor

MAX_QUERIES = 16  # of one attention workgroup; bounds its shared memory and registers
TILE = 8  # lanes along each side of a matmul workgroup
TILE_N = 4  # outputs of one lane of matmul, for each of up to 4 tokens
VECTOR_ROWS = 4  # outputs of one of its lanes for a token
MOST_UNROLLED = 256  # values of keys in a turn of attention_queries; bounds its code


def dispatches(
    binder: Binder,
    op: Op,
    tensors: tuple[Tensor, ...],
    factors: NDArray[np.float32] | None = None,
) -> list[Dispatch]:
    """The dispatches of one op, independent of each other. `factors`: rope's second operand."""
    inputs = tuple(tensors[i] for i in op.inputs)
    outputs = tuple(tensors[i] for i in op.outputs)
    return _KERNELS[op.name](Call(binder, op, inputs, outputs, factors))


def _embed(c: Call) -> list[Dispatch]:
    (table,), (y,) = c.inputs, c.outputs
    lanes, columns = c.binder.tuning.lanes, table.shape[1]
    groups = (-(-(-(-columns // 32) * 4) // lanes), c.rows)
    return [
        c.dispatch(
            f"embed.{table.dtype}",
            {**_planes(part), "Y": c.binder.tensor(y)},
            groups,
            c.rows * columns * ELEMENT_WORK,
            LANES=lanes,
            K=columns,
            FIRST_ROW=part.first,
            ROWS=part.rows,
        )
        for part in c.binder.matrix(table.name)
    ]


def _table_rows(c: Call) -> list[Dispatch]:
    """The rows are on the host, which has written them to a buffer; here they are copied."""
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


def _quantize(c: Call) -> list[Dispatch]:
    columns = c.inputs[0].shape[1]
    return c.elementwise("quantize", c.operands(("X", "Y")), columns // 32, K=columns)


def _matmul(c: Call) -> list[Dispatch]:
    x, weight = c.inputs
    suffix = weight.dtype + (".a8" if x.dtype == "a8" else "")
    tuning = c.binder.tuning
    if tuning.vector_tokens and weight.shape[1] % 32 == 0:
        return [_matmul_rows_part(c, suffix, part) for part in c.binder.matrix(weight.name)]
    make = _matvec_part if c.rows <= tuning.matvec_tokens else _matmul_part
    return [make(c, suffix, part) for part in c.binder.matrix(weight.name)]


def _matvec_part(c: Call, suffix: str, part: WeightPart) -> Dispatch:
    tuning = c.binder.tuning
    tokens = min(4, c.rows)
    rows = tuning.matvec_rows if tokens == 1 else min(4, tuning.matvec_rows)
    return c.dispatch(
        c.reducing(f"matvec.{suffix}"),
        _product_buffers(c, part),
        (-(-part.rows // rows), -(-c.rows // tokens)),
        _product_work(c, part),
        LANES=tuning.matvec_lanes,
        K=c.inputs[1].shape[1],
        N=part.rows,
        FIRST_ROW=part.first,
        Y_COLUMNS=c.outputs[0].shape[1],
        ROWS=rows,
        TOKENS=tokens,
    )


def _matmul_rows_part(c: Call, suffix: str, part: WeightPart) -> Dispatch:
    tokens = min(c.binder.tuning.vector_tokens, c.rows)
    return c.dispatch(
        f"matmul_rows.{suffix}",
        _product_buffers(c, part),
        (-(-part.rows // (VECTOR * VECTOR_ROWS)), -(-c.rows // tokens)),
        _product_work(c, part),
        LANES=VECTOR,
        K=c.inputs[1].shape[1],
        N=part.rows,
        FIRST_ROW=part.first,
        Y_COLUMNS=c.outputs[0].shape[1],
        TOKENS=tokens,
    )


def _matmul_part(c: Call, suffix: str, part: WeightPart) -> Dispatch:
    tile_t = min(4, 1 << max(0, math.ceil(math.log2(c.rows / TILE))))
    return c.dispatch(
        f"matmul.{suffix}",
        _product_buffers(c, part),
        (-(-part.rows // (TILE * TILE_N)), -(-c.rows // (TILE * tile_t))),
        _product_work(c, part),
        K=c.inputs[1].shape[1],
        N=part.rows,
        FIRST_ROW=part.first,
        Y_COLUMNS=c.outputs[0].shape[1],
        TILE_T=tile_t,
        TILE_N=TILE_N,
    )


def _product_work(c: Call, part: WeightPart) -> int:
    return c.rows * part.rows * c.inputs[1].shape[1]


def _product_buffers(c: Call, part: WeightPart) -> dict[str, BufferRange]:
    x, y = c.binder.tensor(c.inputs[0]), c.binder.tensor(c.outputs[0])
    return {**_planes(part), "X": x, "Y": y}


def _planes(part: WeightPart) -> dict[str, BufferRange]:
    planes = {"Weight": part.levels}
    return planes if part.scales is None else {**planes, "Scales": part.scales}


def _rope(c: Call) -> list[Dispatch]:
    x = c.inputs[0]
    pairs = int(c.p["rotary_dim"]) // 2
    factors_name = c.inputs[1].name if len(c.inputs) > 1 else ""
    key = f"rope {pairs} {c.p['theta']} {c.p['scale']} {factors_name}"
    frequencies = rope_frequencies(pairs, c.p["theta"], c.p["scale"], c.factors)
    buffers = {
        "X": c.binder.tensor(x),
        "Frequencies": c.binder.table(key, frequencies),
        "Y": c.binder.tensor(c.outputs[0]),
    }
    return c.elementwise(
        "rope",
        buffers,
        x.shape[1] // 2,
        COLUMNS=x.shape[1],
        HEAD_DIM=int(c.p["head_dim"]),
        ROTARY_DIM=int(c.p["rotary_dim"]),
        HALF_SPLIT=int(c.p["half_split"]),
    )


def rope_frequencies(
    pairs: int, theta: float, scale: float, factors: NDArray[np.float32] | None
) -> NDArray[np.uint32]:
    """Turns a position, modulo 1, in units of 2^-64: uint32 [pairs, (low, high)]."""
    frequency = np.float64(theta) ** (-np.arange(pairs) / pairs)
    if factors is not None:
        frequency = frequency / factors
    turns = [int(f * scale / (2 * math.pi) * 2**64) % 2**64 for f in frequency.tolist()]
    return np.array([(t & 0xFFFFFFFF, t >> 32) for t in turns], np.uint32).reshape(-1, 2)


def _store(c: Call) -> list[Dispatch]:
    """All pairs of rows and cache in one dispatch; a place that is left out has no columns."""
    pairs = list(zip(c.inputs, c.outputs, strict=True))
    buffers: dict[str, BufferRange] = {}
    sizes: dict[str, int] = {}
    items = 0
    for place, letter in enumerate("ABC"):
        x, cache = pairs[place] if place < len(pairs) else pairs[0]
        buffers |= {f"Rows{letter}": c.binder.tensor(x), f"Cache{letter}": c.binder.tensor(cache)}
        if place < len(pairs):
            sizes |= _store_sizes(cache, letter)
            items += -(-cache.shape[1] // max(2, 2 * cache.block))
    return c.elementwise("store", buffers, items, **sizes)


def _store_sizes(cache: Tensor, letter: str) -> dict[str, int]:
    rows, columns = cache.shape
    sizes = {"TYPE": ("f32", "f16", "i8").index(cache.dtype), "COLUMNS": columns}
    sizes["CACHE_ROWS"] = rows
    if cache.block:
        sizes["BLOCK"] = cache.block
    return {f"{name}_{letter}": value for name, value in sizes.items()}


def _attention(c: Call) -> list[Dispatch]:
    heads, head_dim = int(c.p["heads"]), int(c.p["head_dim"])
    buffers = c.operands(("Q", "KCache", "VCache", "Gains", "Y"))
    first = int(c.p["layer"]) * heads  # in a buffer, so that the layers share a pipeline
    buffers["FirstGain"] = c.binder.table(f"first gain {first}", np.array([first], np.uint32))
    variant, groups, shape = _attention_shape(c)
    dispatch = c.dispatch(
        variant,
        buffers,
        groups,
        c.rows * 2 * heads * head_dim * c.inputs[1].shape[0],
        HEADS=heads,
        KV_HEADS=int(c.p["kv_heads"]),
        HEAD_DIM=head_dim,
        SCALE=float(c.p["scale"]),
        WINDOW=int(c.p["window"]),
        CACHE_ROWS=c.inputs[1].shape[0],
        **shape,
    )
    return [dispatch]


def _attention_shape(c: Call) -> tuple[str, tuple[int, int], dict[str, int]]:
    """Variant, workgroups and the constants of its own."""
    heads, head_dim = int(c.p["heads"]), int(c.p["head_dim"])
    formats = f"{c.inputs[1].dtype}.{c.inputs[2].dtype}"
    if c.binder.tuning.vector_tokens and head_dim % 8 == 0:
        sizes = {"LANES": VECTOR, "POSITIONS": max(1, MOST_UNROLLED // head_dim)}
        return f"attention_queries.{formats}", (-(-c.rows * heads // VECTOR), 1), sizes
    each, tokens = _attention_tile(c)
    sizes = {"LANES": c.binder.tuning.attention_lanes, "HEADS_EACH": each, "TOKENS": tokens}
    return c.reducing(f"attention.{formats}"), (heads // each, -(-c.rows // tokens)), sizes


def _attention_tile(c: Call) -> tuple[int, int]:
    """Heads and tokens of one workgroup; its queries and weights must fit shared memory."""
    tuning = c.binder.tuning
    query_bytes = 4 * int(c.p["head_dim"]) + 4 * tuning.attention_lanes
    queries = min(MAX_QUERIES, max(1, (tuning.shared_bytes - 1024) // query_bytes))
    shared = int(c.p["heads"]) // int(c.p["kv_heads"])
    each = shared if tuning.share_heads and shared <= queries else 1
    return each, max(1, min(c.rows, 4, queries // each))


def _silu_mul(c: Call) -> list[Dispatch]:
    return c.columnwise("silu_mul", ("Gate", "Up", "Y"))


def _add(c: Call) -> list[Dispatch]:
    return c.columnwise("add", ("A", "B", "Y"))


def _gelu_mul(c: Call) -> list[Dispatch]:
    return c.columnwise("gelu_mul", ("Gate", "Up", "Y"))


def _scale(c: Call) -> list[Dispatch]:
    buffers = {"X": c.binder.tensor(c.inputs[0]), "Y": c.binder.tensor(c.outputs[0])}
    variant = "scale"
    if len(c.inputs) > 1:
        variant, buffers["Weight"] = "scale.weight", c.binder.vector(c.inputs[1].name)
    columns = c.outputs[0].shape[1]
    return c.elementwise(variant, buffers, columns, COLUMNS=columns, FACTOR=float(c.p["factor"]))


def _softcap(c: Call) -> list[Dispatch]:
    limits = {"SCALE": float(c.p["scale"]), "CAP": float(c.p["cap"])}
    return c.columnwise("softcap", ("X", "Y"), **limits)


def _sparsify(c: Call) -> list[Dispatch]:
    return c.rowwise("sparsify", ("X", "Y"), DEVIATIONS=float(c.p["deviations"]))


def _match_rms(c: Call) -> list[Dispatch]:
    return c.rowwise("match_rms", ("X", "Target", "Y"), EPS=float(c.p["eps"]))


def _columns(c: Call) -> list[Dispatch]:
    sizes = {"X_COLUMNS": c.inputs[0].shape[1], "FIRST": int(c.p["first"])}
    return c.columnwise("columns", ("X", "Y"), **sizes)


def _concat(c: Call) -> list[Dispatch]:
    return c.columnwise("concat", ("A", "B", "Y"), A_COLUMNS=c.inputs[0].shape[1])


def _altup_predict(c: Call) -> list[Dispatch]:
    streams = math.isqrt(c.inputs[1].shape[1])
    return c.columnwise("altup_predict", ("X", "Coefs", "Y"), STREAMS=streams)


def _altup_correct(c: Call) -> list[Dispatch]:
    sizes = {"N": c.inputs[1].shape[1], "ACTIVE": int(c.p["active"])}
    return c.columnwise("altup_correct", ("X", "Activated", "Coefs", "Y"), **sizes)


def _add_streams(c: Call) -> list[Dispatch]:
    sizes = {"N": c.inputs[1].shape[1], "FIRST": int(c.p["first"])}
    return c.columnwise("add_streams", ("X", "A", "Y"), **sizes)


def _output_rows(c: Call) -> list[Dispatch]:
    return c.columnwise("output_rows", ("X", "Y"))


_KERNELS: Mapping[str, Callable[[Call], list[Dispatch]]] = {
    "embed": _embed,
    "table_rows": _table_rows,
    "rms_norm": _rms_norm,
    "quantize": _quantize,
    "matmul": _matmul,
    "rope": _rope,
    "store": _store,
    "attention": _attention,
    "silu_mul": _silu_mul,
    "gelu_mul": _gelu_mul,
    "add": _add,
    "scale": _scale,
    "softcap": _softcap,
    "sparsify": _sparsify,
    "columns": _columns,
    "concat": _concat,
    "match_rms": _match_rms,
    "altup_predict": _altup_predict,
    "altup_correct": _altup_correct,
    "add_streams": _add_streams,
    "output_rows": _output_rows,
}
