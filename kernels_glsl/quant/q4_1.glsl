// value = level * step + minimum, the header's halves
#define HAS_MINIMUM
#include "quant/layout/nibbles.glsl"

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  WORD header = load_header(THERE);
  step = half_of(header, 0);
  minimum = half_of(header, 1);
}
