// 32 int8 in 8 words, of which two are loaded at once; value = level * step
#include "quant/scales.glsl"
layout(binding = 1) readonly buffer Weight { uvec2 weight[]; };

uint position8(uint group, uint i) { return group * 8 + i; }

void levels8(uint block, uint group, out float w[8]) {
  uvec2 words = weight[block * 4 + group];
  for (uint j = 0; j < 2; ++j) {
    int word = int(words[j]);
    for (uint i = 0; i < 4; ++i) w[4 * j + i] = float(bitfieldExtract(word, int(8 * i), 8));
  }
}

uint quad(uint block, uint q) { return weight[block * 4 + q / 2][q & 1]; }

vec2 quad_scale(uint block) { return scale_of(block); }
