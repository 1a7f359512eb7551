// Values of a head that are rotated together in an int4 cache: the largest power of two that divides
// HEAD_DIM (core/quant/rows.py).
const uint ROTATED = HEAD_DIM & (~HEAD_DIM + 1);
