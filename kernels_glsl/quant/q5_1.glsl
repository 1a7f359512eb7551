// value = level * d + m
#define SUPER_WORDS 0
#define WORDS_BEFORE 16
#define HAS_MINIMUM
#include "quant/layout/fives.glsl"

WORD quad_of(AT, WORD word, uint q) { return fives_of(THERE, word, q); }

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  step = half_of(part_half(THERE, 0), 0);
  minimum = half_of(part_half(THERE, 1), 0);
}
