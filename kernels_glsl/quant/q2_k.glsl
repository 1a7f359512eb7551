// value = d * scale * level - dmin * minimum, a byte of scale (low) and minimum for 16 values
#define SUPER_WORDS 16
#define PART_HEADER_WORDS 8
#define SCALES 2
#define HAS_MINIMUM
#include "quant/layout/twos.glsl"

WORD quad_of(AT, WORD word, uint q) { return twos_of(word, q); }

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  WORD both = part_byte(THERE, half_block);
  step = half_of(tile_half(THERE, 0), 0) * LEVEL(both & 15u);
  minimum = -half_of(tile_half(THERE, 1), 0) * LEVEL(both >> 4);
}
