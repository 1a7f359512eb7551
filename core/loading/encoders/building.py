"""How an encoder's program is built for steps that several texts share."""

from __future__ import annotations

from dataclasses import replace

from llm_lite.core.loading.backends import ENCODER_BUCKETS
from llm_lite.core.models.model import BuildOptions, ModelShape
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.step import PAGE, PageShape

_TEXTS, _STEP = 32, 512  # texts and tokens of a step
_BYTES = 256 << 20  # of the keys and values of such a step


def shared_encoder_options(build: BuildOptions, shape: ModelShape) -> BuildOptions:
    """`build` is how its program is built for one text."""
    row = 8 * shape.layers * shape.kv_heads * shape.head_dim  # keys and values
    whole = -(-build.context // PAGE)
    pages = max(whole, min(_TEXTS, _BYTES // (PAGE * row)))
    pages += _STEP // PAGE
    largest = max(_STEP, build.context)
    sizes = sorted({n for n in ENCODER_BUCKETS if n < largest} | {largest})
    return replace(
        build,
        buckets=tuple(Bucket(n, 1) for n in sizes),
        query_rows=0,
        pages=PageShape(pages, _TEXTS, whole * PAGE),
        head=False,
    )
