// value = level * step + minimum, the header's halves
#define WORDS 4
#define HEADER_BITS 32
#define HAS_MINIMUM
#include "quant/layout/planes.glsl"
#include "quant/layout/nibbles.glsl"

void decode_header(WORD header, out LEVEL step, out LEVEL minimum) {
  step = half_of(header, 0);
  minimum = half_of(header, 1);
}
