// value = d * (level - z): the header has 10 bits of d, a half without sign and its lowest five
// bits, and 6 bits of z in quarters.
const uint TILE_WORDS = 72;
#define HAS_MINIMUM
#include "quant/tiles.glsl"

uint position8(uint group, uint i) { return group * 4 + (i & 3) + (i >> 2) * 16; }

void levels8(uint block, uint group, out float w[8]) {
  uint word = group_word(block, group);
  for (uint i = 0; i < 4; ++i) {
    w[i] = float(bitfieldExtract(word, int(8 * i), 4));
    w[i + 4] = float(bitfieldExtract(word, int(8 * i + 4), 4));
  }
}

uint quad(uint block, uint q) { return group_word(block, q & 3) >> (q & 4) & 0x0F0F0F0Fu; }

vec2 scale_of(uint block) {
  uint header = header_of(block);
  float d = unpackHalf2x16((header & 0xFFC0u) >> 1).x;
  return vec2(d, -0.25 * d * float(header & 63u));
}

vec2 quad_scale(uint block) { return scale_of(block); }
