// value = d * (level - z): the header has 10 bits of d, a half without sign and its lowest five
// bits, and 6 bits of z in quarters.
#define HAS_MINIMUM
#include "quant/layout/nibbles.glsl"

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  WORD header = load_header(THERE);
  step = half_of((header & 0xFFC0u) >> 1, 0);
  minimum = -0.25 * step * LEVEL(header & 63u);
}
