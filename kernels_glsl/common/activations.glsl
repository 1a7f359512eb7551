// The left operand of a product: rows of K values, float32 or int8 blocks (A8). Needs K and BLOCKS. With
// TEXELS activation4 gives 4 values of a row's block, from 4q on.
#include "common/words.glsl"

#ifdef A8
// A row: K int8, then K/32 pairs of a float scale and a block sum, and K/32 pairs of int16, of which
// the first is the zero point (core/quant/blocks/a8.py).
#ifdef TEXELS
layout(binding = 3, r32ui) uniform readonly uimageBuffer X;
uint x_word(uint at) { return imageLoad(X, int(at)).x; }
#else
layout(binding = 3) readonly buffer X { uint x_words[]; };
uint x_word(uint at) { return x_words[at]; }
#endif
const uint ROW_WORDS = K / 4 + 3 * BLOCKS;

// 4 levels of a block: value = (level + zero) * scale
int x_quad(uint row, uint block, uint q) { return int(x_word(row * ROW_WORDS + block * 8 + q)); }

// scale, and the sum of the block's values
vec2 x_scale(uint row, uint block) {
  uint at = row * ROW_WORDS + K / 4 + 2 * block;
  return vec2(uintBitsToFloat(x_word(at)), uintBitsToFloat(x_word(at + 1)));
}

int x_zero(uint row, uint block) {
  return bitfieldExtract(int(x_word(row * ROW_WORDS + K / 4 + 2 * BLOCKS + block)), 0, 16);
}

#ifdef TEXELS
vec4 activation4(uint row, uint block, uint q) {
  return vec4(bytes_of(uint(x_quad(row, block, q))) + x_zero(row, block)) * x_scale(row, block).x;
}
#endif
#elif defined(TEXELS)
layout(binding = 3, rgba32f) uniform readonly imageBuffer X;

vec4 activation4(uint row, uint block, uint q) { return imageLoad(X, int(row * (K / 4) + block * 8 + q)); }
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
