"""A plan: the flat list of ops over named buffers that every executor runs.

A model definition builds a `Program`: a `Plan` for each bucket of tokens, 1 for decode and more for
prefill. Scratch tensors share one arena by lifetime. What changes from step to step is a `Step`
alone: tokens, their first position, and how many rows of logits are asked for.

Tables on disk. Gemma 3n has an embedding of every token for every layer: 2.35e9 values. A
token needs one row. A plan names such a weight `Kind.TABLE`, and the op `table_rows` reads the rows
of the step's tokens where they lie in the mapped file: the C++ executor in the kernel, Vulkan by a
few kilobytes that the host writes beside the step buffer. A table is never converted, uploaded or
indexed with 32 bits. Variants keep it in blocks of rows (Q4_1, Q8_0), as a row of a tile would drag
in fifteen others, and its pages are released every few dozen tokens.

Slices. A slice that drafts copies nothing: `Plan.sliced`, made of `BuildOptions.draft_slice`, is a
plan of the whole model's program whose `matmul` has fewer outputs or inputs than its weight. The
weight's own columns stay the stride from row to row. Layers keep their numbers, so that the caches,
which plans share by name, are the model's. Steps with `Step.sliced` run it; it keeps no queries.
The block of a Qwen3.5 that drafts is such a plan too (core/models/qwen3_5.py).
"""
