// The left operand of a product: rows of K values, float32 or int8 blocks (A8). Needs K and BLOCKS.

#ifdef A8
// A row: K int8, then K/32 pairs of a float scale and a block sum, and K/32 pairs of int16, of which
// the first is the zero point (core/quant/blocks/a8.py).
layout(binding = 3) readonly buffer X { uint x_words[]; };
const uint ROW_WORDS = K / 4 + 3 * BLOCKS;

// 4 levels of a block: value = (level + zero) * scale
int x_quad(uint row, uint block, uint q) { return int(x_words[row * ROW_WORDS + block * 8 + q]); }

// scale, and the sum of the block's values
vec2 x_scale(uint row, uint block) {
  uint at = row * ROW_WORDS + K / 4 + 2 * block;
  return vec2(uintBitsToFloat(x_words[at]), uintBitsToFloat(x_words[at + 1]));
}

int x_zero(uint row, uint block) {
  return bitfieldExtract(int(x_words[row * ROW_WORDS + K / 4 + 2 * BLOCKS + block]), 0, 16);
}
#else
layout(binding = 3) readonly buffer X { float x_values[]; };
layout(binding = 3) readonly buffer XQuads { vec4 x_quads[]; };  // the same, four at once

// the values at positions position8(group, 0..7) of a block
void activation8(uint row, uint block, uint group, out float x[8]) {
  if (K % 32 == 0) {  // positions come in two fours
    uint at = (row * K + block * 32) / 4;
    vec4 low = x_quads[at + position8(group, 0) / 4], high = x_quads[at + position8(group, 4) / 4];
    for (uint i = 0; i < 4; ++i) {
      x[i] = low[i];
      x[i + 4] = high[i];
    }
    return;
  }
  for (uint i = 0; i < 8; ++i) {
    uint k = block * 32 + position8(group, i);
    x[i] = k < K ? x_values[row * K + k] : 0.0;
  }
}
#endif
