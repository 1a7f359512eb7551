// value = 2^(e - 128) * table[code]: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives
#define SUPER_WORDS 0
#define PART_HEADER_WORDS 4
#include "quant/layout/nibbles.glsl"
const uint TABLE[4] = {0x03020100u, 0x0C080604u, 0xFDFEFF00u, 0xF4F8FAFCu};
#include "quant/layout/codes.glsl"

WORD quad_of(AT, WORD word, uint q) { return codes_of(nibbles_of(word, q)); }

float power_of(uint e) { return uintBitsToFloat(e < 2 ? 0x00200000u << e : e - 1 << 23); }
vec4 power_of(uvec4 e) {
  return vec4(power_of(e.x), power_of(e.y), power_of(e.z), power_of(e.w));
}

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  step = power_of(part_byte(THERE, 0));
  minimum = LEVEL(0.0);
}
