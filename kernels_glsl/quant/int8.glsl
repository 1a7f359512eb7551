// value = level * d, d the header's half
#include "quant/layout/bytes.glsl"

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  step = half_of(load_header(THERE), 0);
  minimum = LEVEL(0.0);
}
