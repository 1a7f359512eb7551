// value = level * step + minimum; a word of scales is (step, minimum).
#include "quant/nibbles.glsl"
#define HAS_MINIMUM
layout(binding = 2) readonly buffer Scales { uint scales[]; };

void levels8(uint block, uint group, out float w[8]) { nibbles8(block, group, w); }

vec2 scale_of(uint block) { return unpackHalf2x16(scales[block]); }

vec2 quad_scale(uint block) { return scale_of(block); }
