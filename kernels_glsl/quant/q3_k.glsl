// value = d * scale * (level - 4), a scale for 16 values: a group of third bits, then lower ones
#define SUPER_WORDS 8
#define PART_HEADER_WORDS 24
#define SCALES 2
#include "quant/layout/twos.glsl"
#include "quant/layout/super_scales.glsl"

WORD quad_of(AT, WORD word, uint q) {
  WORD third = part_group(THERE, 8, 0) >> q & 0x01010101u;
  return less_each(twos_of(word, q) | third << 2, 0x04040404u);
}

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  signed_scale(THERE, half_block, step, minimum);
}
