// value = d * scale * table[code], the table of IQ4_NL
#define SUPER_WORDS 8
#define PART_HEADER_WORDS 4
#include "quant/layout/nibbles.glsl"
#include "quant/layout/super_scales.glsl"
const uint TABLE[4] = {0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u};
#include "quant/layout/codes.glsl"

WORD quad_of(AT, WORD word, uint q) { return codes_of(nibbles_of(word, q)); }

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  signed_scale(THERE, 0, step, minimum);
}
