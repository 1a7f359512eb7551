// value = d * scale * (level - 32), a scale for 16 values: two groups of upper bits, then nibbles
#define SUPER_WORDS 8
#define PART_HEADER_WORDS 40
#define SCALES 2
#include "quant/layout/nibbles.glsl"
#include "quant/layout/super_scales.glsl"

WORD quad_of(AT, WORD word, uint q) {
  WORD upper = part_group(THERE, 8, q / 4) >> (q % 4 * 2) & 0x03030303u;
  return less_each(nibbles_of(word, q) | upper << 4, 0x20202020u);
}

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  signed_scale(THERE, half_block, step, minimum);
}
