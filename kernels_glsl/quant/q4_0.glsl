// value = (level - 8) * step
#include "quant/nibbles.glsl"
#include "quant/scales.glsl"

void levels8(uint block, uint group, out float w[8]) {
  nibbles8(block, group, w);
  for (uint i = 0; i < 8; ++i) w[i] -= 8.0;
}

vec2 quad_scale(uint block) { return vec2(1.0, -8.0) * scale_of(block).x; }
