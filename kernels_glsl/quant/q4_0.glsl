// value = (level - 8) * step, the header's half
#define ZERO_LEVEL 8.0
#include "quant/layout/nibbles.glsl"

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  step = half_of(load_header(THERE), 0);
  minimum = LEVEL(0.0);
}
