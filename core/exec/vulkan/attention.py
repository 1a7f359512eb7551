"""Attention as a dispatch: which kernel, and how tokens, heads and positions are spread.

`attention_queries` is for software drivers, where a lane is a query. Of `attention` a workgroup
takes a few tokens and the heads that share a key/value head; of one token's positions several
workgroups may take a share each.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from llm_lite.core.errors import DeviceError, UnfitModelError
from llm_lite.core.exec.vulkan.dispatch import Call, Dispatch
from llm_lite.core.exec.vulkan.tuning import VECTOR, Tuning, unfit_heads
from llm_lite.core.gpu.pipelines import BufferRange
from llm_lite.core.plan.plan import Op, Program, Tensor
from llm_lite.core.quant.formats import COLUMNS
from llm_lite.core.records import replace

MAX_QUERIES = 16  # of one workgroup; bounds its shared memory and registers
MOST_UNROLLED = 256  # values of keys in a turn of attention_queries; bounds its code
# Tokens of a shared step whose positions workgroups share; of more there are workgroups enough.
MOST_SPLIT_TOKENS = 16

Shape = tuple[str, tuple[int, int], dict[str, int]]  # variant, workgroups, constants of its own


def attention(c: Call) -> list[Dispatch]:
    heads, head_dim = int(c.p["heads"]), int(c.p["head_dim"])
    if problem := unfit_heads(head_dim):
        raise UnfitModelError(problem)
    tensors = zip(("Q", "KCache", "VCache", "Gains", "Y"), (*c.inputs[:4], *c.outputs), strict=True)
    buffers = {name: c.binder.tensor(tensor) for name, tensor in tensors}
    buffers["LayerHeads"] = _layer_heads(c)
    table = c.optional("bias")
    buffers["Bias"] = _bias(c, table) if table else buffers["Gains"]
    variant, groups, shape = _shape(c)
    if not variant.startswith("attention_queries"):
        buffers["Parts"], buffers["Arrived"] = c.binder.attention_parts()
    rows = c.inputs[1].shape[0]
    dispatch = c.dispatch(
        variant,
        buffers,
        groups,
        c.rows * 2 * heads * head_dim * min(rows, _most_seen(c)),
        HEADS=heads,
        KV_HEADS=int(c.p["kv_heads"]),
        HEAD_DIM=head_dim,
        SCALE=float(c.p["scale"]),
        WINDOW=int(c.p["window"]),
        SOFTCAP=float(c.p["softcap"]),
        SINKS=int(c.optional("sinks") is not None),
        CACHE_ROWS=rows,
        RING_ROWS=c.inputs[1].ring,
        **c.pages(),
        **_slots(c),
        **_seen(c),
        **shape,
    )
    return [replace(dispatch, whole="SPLITS" in shape)]


def _slots(c: Call) -> dict[str, int]:
    """Return the constant by which shaders find the gains of a sequence; {} for plain steps."""
    pages, (rows, heads) = c.binder.program.pages, c.inputs[3].shape
    return {} if pages is None else {"SLOT_GAINS": rows // pages.slots * heads}


def _layer_heads(c: Call) -> BufferRange:
    """Return a table with the index of the layer's first gain and its sinks: a buffer, so that
    layers share a pipeline."""
    words = np.array([int(c.p["layer"]) * int(c.p["heads"])], np.uint32)
    sinks = c.optional("sinks")
    name = sinks.name if sinks else ""
    if c.vector is not None:
        words = np.concatenate([words, c.vector.view(np.uint32)])
    return c.binder.table(f"layer heads {words[0]} {name}", words)


def _bias(c: Call, table: Tensor) -> BufferRange:
    parts = c.binder.matrix(table.name)
    if len(parts) > 1:
        raise DeviceError(
            f"tensor {table.name}: {table.shape[0]} heads of {table.shape[1]} distances, more than "
            "the device can bind at once: choose a smaller context."
        )
    return parts[0].place


def _seen(c: Call) -> dict[str, int]:
    """Return the constants that say which positions are seen, and the sizes of a bias; empty for
    causal attention without one, so that all such models share their pipelines."""
    sizes = {name.upper(): 1 for name in ("bidirectional", "cross") if c.p[name]}
    sizes |= {"FIRST": int(c.p["first"])} if c.p["first"] else {}
    if (table := c.optional("bias")) is None:
        return sizes
    _, columns = table.shape
    stride = -(-columns // COLUMNS) * COLUMNS  # as rows of values are padded
    before = int(c.p["bias_before"])
    return sizes | {"BIAS_COLUMNS": columns, "BIAS_STRIDE": stride, "BIAS_BEFORE": before}


def _most_seen(c: Call) -> int:
    """Return the most positions that a token sees."""
    program = c.binder.program
    return program.source if c.p["cross"] else program.context


def _shape(c: Call) -> Shape:
    heads, head_dim = int(c.p["heads"]), int(c.p["head_dim"])
    formats = f"{c.inputs[1].dtype}.{c.inputs[2].dtype}"
    if c.binder.tuning.vector_tokens and head_dim % 8 == 0:
        positions = max(1, MOST_UNROLLED // head_dim)
        if c.binder.program.pages:
            positions = 1 << (positions.bit_length() - 1)
        sizes = {"LANES": VECTOR, "POSITIONS": positions}
        return f"attention_queries.{formats}", (-(-c.rows * heads // VECTOR), 1), sizes
    each, tokens = _tile(c)
    sizes = {"LANES": c.binder.tuning.attention_lanes, "HEADS_EACH": each, "TOKENS": tokens}
    sizes |= _shares(c)
    if splits := sizes.get("SPLITS", 0):
        sizes["TOKENS"] = 1
        groups = heads // each, c.rows * splits
    else:
        groups = heads // each, -(-c.rows // tokens)
    return c.reducing(f"attention.{formats}"), groups, sizes


def _shares(c: Call) -> dict[str, int]:
    """Return the constants that share positions among workgroups. Shares of a shared step begin at
    the same positions in all plans: where the step has many tokens, a workgroup takes one share
    after the other."""
    tuning, program = c.binder.tuning, c.binder.program
    splits, share = tuning.attention_splits, tuning.attention_share
    if program.pages is None:
        return {"SPLITS": splits, "SHARE": share} if c.rows == 1 and splits > 1 else {}
    if splits == 1:
        return {"SHARE": 0}
    longest = max(share, -(-_most_seen(c) // splits))
    sizes = {"SHARE": -(-longest // tuning.attention_lanes) * tuning.attention_lanes}
    return sizes | ({"SPLITS": splits} if c.rows <= MOST_SPLIT_TOKENS else {})


def attention_part_bytes(program: Program, tuning: Tuning) -> tuple[int, int]:
    """Return the bytes of partial results that workgroups which share positions leave for the last
    of them, and of their counters, for the op that needs the most."""
    ops = [op for plan in program.plans for op in plan.ops if op.name == "attention"]
    sizes = [_op_part_bytes(op, tuning.attention_splits) for op in ops]
    parts, arrived = (max((pair[i] for pair in sizes), default=4) for i in (0, 1))
    tokens = _split_tokens(program)
    return parts * tokens, arrived * tokens


def _split_tokens(program: Program) -> int:
    if program.pages is None:
        return 1
    few: Iterable[int] = (p.max_tokens for p in program.plans if p.max_tokens <= MOST_SPLIT_TOKENS)
    return max(few, default=1)


def _op_part_bytes(op: Op, splits: int) -> tuple[int, int]:
    heads, head_dim = int(op.params["heads"]), int(op.params["head_dim"])
    return 4 * heads * splits * (head_dim + 2), 4 * heads


def _tile(c: Call) -> tuple[int, int]:
    """Return heads and tokens of one workgroup; its queries and weights must fit shared memory."""
    tuning = c.binder.tuning
    head_bytes = 4 * int(c.p["head_dim"])
    query_bytes = head_bytes + 4 * tuning.attention_lanes
    rest = 1024 + (head_bytes if c.inputs[2].dtype == "i4" else 0)  # sums are rotated there
    queries = min(MAX_QUERIES, max(1, (tuning.shared_bytes - rest) // query_bytes))
    shared = int(c.p["heads"]) // int(c.p["kv_heads"])
    each = shared if tuning.share_heads and shared <= queries else 1
    return each, max(1, min(c.rows, 4, queries // each))
