"""Executors of a plan: NumPy, which defines every op, C++ and Vulkan; and their comparison.

An op has one name everywhere: a row in `core/plan/ops.py`, a method of the builder, a function in
`reference.py`, a file in kernels_cpp/ops/ and one in kernels_glsl/, a test case. (The host copies
the rows of `table_rows` on Vulkan, and `position_rows` is a variant of `embed` there.) Operands and
parameters stand in the row alone: tools/kernel_schema.py, which the build runs, writes from it
C++'s codes, parameter structs, checks and kernel table, and the variants of the shaders, which
tools/compile_shaders.py compiles. Weight formats are rows in the same way
(`core/quant/formats.py`): codes, sizes, the choice of a kernel by format (a switch that names every
format) and the shaders of each are generated; codecs, decoders and shaders are found by name.
`compare.py` runs two executors op by op and names the first op that leaves its tolerance.

Activations are float32 (`a32`) or int8 in blocks of 32 with a scale and a zero point each (`a8`,
for integer dot products; `core/quant/blocks/a8.py`). `quantize` is an op of its own, so that q, k
and what else reads a tensor share one result. Logits are made from float32 in any case, as no later
layer reduces their errors. Sums are float32 everywhere.
"""
