// value = level * step, the header's half
#include "quant/layout/bytes.glsl"

void decode_header(WORD header, out LEVEL step, out LEVEL minimum) {
  step = half_of(header, 0);
  minimum = LEVEL(0.0);
}
