// value = d * table[code]: -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
#define SUPER_WORDS 0
#define PART_HEADER_WORDS 8
#include "quant/layout/nibbles.glsl"
const uint TABLE[4] = {0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u};
#include "quant/layout/codes.glsl"

WORD quad_of(AT, WORD word, uint q) { return codes_of(nibbles_of(word, q)); }

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  step = half_of(part_half(THERE, 0), 0);
  minimum = LEVEL(0.0);
}
