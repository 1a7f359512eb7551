// The left operand of a product as texels: activation4 gives 4 values of a block of a row, from
// 4 * quad on. Rows lie as common/activations.glsl says. Needs K and BLOCKS.

#ifdef A8
layout(binding = 3, r32ui) uniform readonly uimageBuffer X;
const uint ROW_WORDS = K / 4 + 3 * BLOCKS;

uint word_of_x(uint at) { return imageLoad(X, int(at)).x; }

vec4 activation4(uint row, uint block, uint quad) {
  uint base = row * ROW_WORDS;
  int word = int(word_of_x(base + block * 8 + quad));
  float scale = uintBitsToFloat(word_of_x(base + K / 4 + 2 * block));
  int zero = int(word_of_x(base + K / 4 + 2 * BLOCKS + block)) << 16 >> 16;
  return vec4((ivec4(word) << ivec4(24, 16, 8, 0) >> 24) + zero) * scale;
}
#else
layout(binding = 3, rgba32f) uniform readonly imageBuffer X;

vec4 activation4(uint row, uint block, uint quad) {
  return imageLoad(X, int(row * (K / 4) + block * 8 + quad));
}
#endif
