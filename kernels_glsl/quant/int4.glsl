// value = d * (level - z): the header has 10 bits of d, a half without sign and its lowest five
// bits, and 6 bits of z in quarters.
#define SUPER_WORDS 0
#define PART_HEADER_WORDS 8
#define HAS_MINIMUM
#include "quant/layout/nibbles.glsl"

WORD quad_of(AT, WORD word, uint q) { return nibbles_of(word, q); }

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  WORD header = part_half(THERE, 0);
  step = half_of((header & 0xFFC0u) >> 1, 0);
  minimum = -0.25 * step * LEVEL(header & 63u);
}
