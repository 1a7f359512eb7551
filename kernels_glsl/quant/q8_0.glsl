// 32 int8 in 8 words; value = level * step
#include "quant/scales.glsl"
layout(binding = 1) readonly buffer Weight { uint weight[]; };

uint position8(uint group, uint i) { return group * 8 + i; }

void levels8(uint block, uint group, out float w[8]) {
  for (uint j = 0; j < 2; ++j) {
    int word = int(weight[block * 8 + group * 2 + j]);
    for (uint i = 0; i < 4; ++i) w[4 * j + i] = float(bitfieldExtract(word, int(8 * i), 8));
  }
}

uint quad(uint block, uint q) { return weight[block * 8 + q]; }

vec2 quad_scale(uint block) { return scale_of(block); }
