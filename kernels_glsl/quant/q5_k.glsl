// value = d * scale * level - dmin * minimum
#define SUPER_WORDS 16
#define WORDS_BEFORE 8
#define HAS_MINIMUM
#include "quant/layout/fives.glsl"
#include "quant/layout/super_scales.glsl"

WORD quad_of(AT, WORD word, uint q) { return fives_of(THERE, word, q); }

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  scale_and_minimum(THERE, step, minimum);
}
