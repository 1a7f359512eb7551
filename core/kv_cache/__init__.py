"""The key and value cache: its contents, recent prefixes, where its rows came from, its file.

Keys and values are kept as float16, float32, int8 or int4, each by itself. int8 and int4 have one
float16 scale for each head and position, and a row is a function of the numbers stored in it alone:
rings, pages, truncation, drafted tokens and files on disk move rows as bytes, and a verified
position has the bits of a step by itself. Heads of int4 are rotated by a Hadamard matrix before
they are rounded (`core/quant/rows.py` defines it and says why); attention rotates its queries
instead of the cache, and the weighted sum of values once at the end, in C++
(kernels_cpp/ops/rotate.h) as in GLSL (kernels_glsl/common/rotate_shared.glsl). What reads a cache
for people (maps, statistics, the lesson) gets the numbers that its rows stand for. A position
remembers the coarsest type that it went through (`Precision` of `provenance.py`), so that a cache
of a finer type computes it again.
"""
