"""The executor that records a plan once as Vulkan command buffers and replays them.

For a token only the step buffer is written, and the rows of tables on disk. `fusion.py` groups
neighbouring ops into one dispatch where they fit: a product also does the norm before it, the gate
behind it and the residual after it; q, k and v are one product where their matrices lie together;
`store` also rotates what it keeps; scratch memory is placed for these groups. Ops that run one by
one, to compare or to look inside, are those of the plan. A prefill is cut into submits of a few
milliseconds so that frames pass between them.

`tuning.py` chooses by kind of device. On GPUs neighbouring invocations read neighbouring rows of a
tile of weights, and discrete devices have larger tiles of outputs. Products of int8 blocks are sums
of integers: packed dot products where they are fast, cooperative matrices for many tokens. Such
variants are optional rows of kernels_glsl/variants.txt; `self_test.py` tries each against NumPy
before it is relied on. With them a8 is the default for models of large matrices. In the attention
of a single token several workgroups share the positions, and the last one combines the results.
Software drivers run an invocation as an element of a SIMD vector: for them `matmul_rows` and
`attention_queries` have no barriers and read weights as texels, which such a driver gathers at
once. They decode weights by the same files as all other kernels (kernels_glsl/quant/).

Of steps that several sequences share, shaders find positions, pages and outputs in the step buffer
(kernels_glsl/common/positions.glsl); plain steps compile without that. What attention sees (the
text so far, all of it, or an encoder's source) and a bias by distance are specialization constants
(common/seen.glsl, common/bias.glsl). A sequence gets the same bits alone and beside others: no sum
depends on how many tokens there are, and where a device has one kernel for few tokens and another
for many, `alike.py` runs sequences with few and with many apart.

Where the device does not hold a mixture's experts a plan is cut (`core/exec/parts.py`), and C++
runs the ops of the experts: a recording a part, which copies in what the other side made and copies
out what it is to have.
"""
