// The left operand of a product as texels: activation4 gives 4 values of a row from k = 4 * quad on.
// Rows as in common/activations.glsl. Needs K and BLOCKS.

#ifdef A8
layout(binding = 3, r32ui) uniform readonly uimageBuffer X;
const uint ROW_WORDS = K / 4 + 2 * BLOCKS;

uint word_of_x(uint at) { return imageLoad(X, int(at)).x; }

float scale_of_x(uint row, uint block) { return uintBitsToFloat(word_of_x(row * ROW_WORDS + K / 4 + block)); }

vec4 activation4(uint row, uint quad, float scale) {
  ivec4 bytes = ivec4(word_of_x(row * ROW_WORDS + quad)) << ivec4(24, 16, 8, 0) >> 24;
  return vec4(bytes) * scale;
}
#else
layout(binding = 3, rgba32f) uniform readonly imageBuffer X;

float scale_of_x(uint row, uint block) { return 1.0; }

vec4 activation4(uint row, uint quad, float scale) { return imageLoad(X, int(row * (K / 4) + quad)); }
#endif
