// value = (level - 8) * d
#define SUPER_WORDS 0
#define PART_HEADER_WORDS 8
#define ZERO_LEVEL 8.0
#include "quant/layout/nibbles.glsl"

WORD quad_of(AT, WORD word, uint q) { return nibbles_of(word, q); }

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  step = half_of(part_half(THERE, 0), 0);
  minimum = LEVEL(0.0);
}
