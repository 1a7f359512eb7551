"""The executor that runs a plan in C++ kernels on the processor.

A C++ interpreter has the plan. A step is a sequence of calls of some 20 ms, without the GIL, so
that a stop is noticed. Our own formats lie on disk as tiles of 16 rows, as products want them, and
are mapped; blocks of a GGUF file are laid out so once, for all executors. The products of one token
stream each weight once, prefetched a page ahead. For many tokens weight rows are packed into panels
that fit the cache, a row a SIMD lane, which avoids horizontal sums. Each thread has a contiguous
share of a phase and takes from the others' when it is done; the thread that ended a phase runs the
next one if that has a single task. Waits between phases are shorter than a sleep and a wake-up, so
threads spin. While a frame is drawn and all cores are in use, one thread sleeps: two threads on one
core would delay all others.

A step that several sequences share has a segment for each, with a table of pages of its own
(`core/plan/step.py`); only ops that know positions look at it. With int8 activations there is one
arithmetic: a token gets the same bits in a prompt of any length, decoded alone, as a draft and in a
shared step. Integers give the same as tiles and as panels; attention is cut into parts at fixed
positions (kernels_cpp/ops/attention_parts.h) and adds up in one order, for one query row as for
blocks of them; what is still multiplied in float32, the logits first, is multiplied as for one
token. Float32 activations have the same attention, but products of three or more tokens take
panels, which sum in another order: the logits of a prompt's last token and of that token alone are
within 2e-5 of the largest. In a shared step and among drafts they are multiplied in one way however
many tokens there are (kernels_cpp/ops/matmul.cpp). Chunks of a prompt end where pages do, whatever
the load. An encoder, whose sequences come whole, makes no such promise: its products are made the
quickest way for as many tokens as there are.

The kernels are compiled once for each instruction set, in a namespace of that name: scalar, avx2,
avxvnni (256 bits, without AVX-512), avx512, avx512vnni; neon and neondot. kernels_cpp/base/isa.cpp
says what each needs; the highest that runs is used. `LLM_LITE_ISA` leaves out what is higher, and
`LLM_LITE_PROCESSOR` makes the processor one without it. `self_test.py` compares a build's products
with NumPy's before it is relied on. Build amx is avx512vnni with other products of many tokens
(kernels_cpp/amx/): panels lie as tile registers load them, so that nothing is packed again, and
integers, hence bits, are the same. Build amxbf16 also multiplies float32 activations and weights
that are floats as BF16 digits, whose products TDPBF16PS sums in float32
(kernels_cpp/amx/bf16_digits.h says which digits count, and what they do not hold); a processor that
has only AMX-INT8 gets amx. Tests ask for builds amxemulated and amxbf16emulated by name, which
emulate the operations on registers. Linux grants the registers to a process that asks; where it
refuses, the process is one without them. Build i8mm is neondot with products by SMMLA
(kernels_cpp/i8mm/), which takes two rows and two tokens at a time: half of neondot's instructions,
the same bits. docs/platforms.md says what ran, and why there are no builds for SVE and AVX512-BF16.
"""
