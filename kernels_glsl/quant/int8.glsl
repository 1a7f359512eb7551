// value = level * d, d the header's half
const uint TILE_WORDS = 136;
#include "quant/tiles.glsl"

uint position8(uint group, uint i) { return group * 8 + i; }

void levels8(uint block, uint group, out float w[8]) {
  for (uint j = 0; j < 2; ++j) {
    int word = int(group_word(block, group * 2 + j));
    for (uint i = 0; i < 4; ++i) w[4 * j + i] = float(bitfieldExtract(word, int(8 * i), 8));
  }
}

uint quad(uint block, uint q) { return group_word(block, q); }

vec2 scale_of(uint block) { return vec2(unpackHalf2x16(header_of(block)).x, 0.0); }

vec2 quad_scale(uint block) { return scale_of(block); }
