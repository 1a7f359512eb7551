// value = level * step + minimum, the header's halves
#define HAS_MINIMUM
#include "quant/layout/nibbles.glsl"

void decode_header(WORD header, out LEVEL step, out LEVEL minimum) {
  step = half_of(header, 0);
  minimum = half_of(header, 1);
}
