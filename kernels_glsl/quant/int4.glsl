// value = d * (level - z): the header has 10 bits of d, a half without sign and its lowest five
// bits, and 6 bits of z in quarters.
#define HAS_MINIMUM
#include "quant/layout/nibbles.glsl"

void decode_header(WORD header, out LEVEL step, out LEVEL minimum) {
  step = half_of((header & 0xFFC0u) >> 1, 0);
  minimum = -0.25 * step * LEVEL(header & 63u);
}
