// Weights as texels: 4 rows of a matrix at a time, a component a row. Word j of a row's block of 32
// values along K, for 4 rows, is read with words4; value4 takes a value out of 4 such words, which
// hold GROUP_VALUES values; scales4 gives the blocks' steps and minimums: value = level * step +
// minimum. A format is WORDS a block, tiles or planes (core/exec/vulkan/memory.py). Needs K and N.
layout(binding = 1, rgba32ui) uniform readonly uimageBuffer Weight;
const uint BLOCKS = (K + 31) / 32;  // of a row

#if defined(FORMAT_INT4) || defined(FORMAT_Q4_0) || defined(FORMAT_Q4_1)
const uint WORDS = 4;
vec4 value4(uvec4 words[4], uint i) { return vec4(ivec4(words[i % 16 / 4] >> (i % 4 * 8 + i / 16 * 4) & 15u)); }
#elif defined(FORMAT_INT8) || defined(FORMAT_Q8_0)
const uint WORDS = 8;
vec4 value4(uvec4 words[4], uint i) { return vec4(ivec4(words[i / 4] << (24 - i % 4 * 8)) >> 24); }
#elif defined(FORMAT_F16)
const uint WORDS = 16;
float half_of(uint word, uint i) { return unpackHalf2x16(word)[i]; }
vec4 value4(uvec4 words[4], uint i) {
  uvec4 word = words[i / 2];
  return vec4(half_of(word.x, i % 2), half_of(word.y, i % 2), half_of(word.z, i % 2), half_of(word.w, i % 2));
}
#elif defined(FORMAT_BF16)
const uint WORDS = 16;
vec4 value4(uvec4 words[4], uint i) {
  return uintBitsToFloat(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
}
#else
const uint WORDS = 32;
vec4 value4(uvec4 words[4], uint i) { return uintBitsToFloat(words[i]); }
#endif
const uint GROUPS = WORDS / 4;
const uint GROUP_VALUES = 32 / GROUPS;

#if defined(FORMAT_INT4) || defined(FORMAT_INT8)
uint texel_of(uint quad, uint block) { return (quad / 4 * BLOCKS + block) * (2 + 4 * WORDS); }

void words4(uint quad, uint block, uint group, out uvec4 words[4]) {
  uint at = texel_of(quad, block) + 2 + group * 16 + quad % 4;
  [[unroll]] for (uint i = 0; i < 4; ++i) words[i] = imageLoad(Weight, int(at + i * 4));
}

uvec4 headers4(uint quad, uint block) {  // 16 bits of each
  uvec4 texel = imageLoad(Weight, int(texel_of(quad, block) + quad % 4 / 2));
  uvec2 pair = quad % 2 == 0 ? texel.xy : texel.zw;
  return uvec4(pair.x & 0xFFFFu, pair.x >> 16, pair.y & 0xFFFFu, pair.y >> 16);
}
#else
uint block_of(uint quad, uint row, uint block) { return min(quad * 4 + row, N - 1) * BLOCKS + block; }

void words4(uint quad, uint block, uint group, out uvec4 words[4]) {
  uvec4 rows[4];
  [[unroll]] for (uint r = 0; r < 4; ++r)
    rows[r] = imageLoad(Weight, int(block_of(quad, r, block) * GROUPS + group));
  [[unroll]] for (uint i = 0; i < 4; ++i)
    words[i] = uvec4(rows[0][i], rows[1][i], rows[2][i], rows[3][i]);
}
#endif

#if defined(FORMAT_INT4)
void scales4(uint quad, uint block, out vec4 steps, out vec4 minimums) {
  uvec4 headers = headers4(quad, block);
  [[unroll]] for (uint r = 0; r < 4; ++r) steps[r] = unpackHalf2x16((headers[r] & 0xFFC0u) >> 1).x;
  minimums = -0.25 * steps * vec4(ivec4(headers & 63u));
}
#elif defined(FORMAT_INT8)
void scales4(uint quad, uint block, out vec4 steps, out vec4 minimums) {
  uvec4 headers = headers4(quad, block);
  [[unroll]] for (uint r = 0; r < 4; ++r) steps[r] = unpackHalf2x16(headers[r]).x;
  minimums = vec4(0.0);
}
#elif defined(FORMAT_Q4_1)
layout(binding = 2, r32ui) uniform readonly uimageBuffer Scales;
void scales4(uint quad, uint block, out vec4 steps, out vec4 minimums) {
  [[unroll]] for (uint r = 0; r < 4; ++r) {
    vec2 scale = unpackHalf2x16(imageLoad(Scales, int(block_of(quad, r, block))).x);
    steps[r] = scale.x;
    minimums[r] = scale.y;
  }
}
#elif defined(FORMAT_Q4_0) || defined(FORMAT_Q8_0)
layout(binding = 2, r32ui) uniform readonly uimageBuffer Scales;
void scales4(uint quad, uint block, out vec4 steps, out vec4 minimums) {
  [[unroll]] for (uint r = 0; r < 4; ++r) {
    uint at = block_of(quad, r, block);
    steps[r] = unpackHalf2x16(imageLoad(Scales, int(at / 2)).x >> (at % 2 * 16)).x;
  }
#ifdef FORMAT_Q4_0
  minimums = -8.0 * steps;
#else
  minimums = vec4(0.0);
#endif
}
#else
void scales4(uint quad, uint block, out vec4 steps, out vec4 minimums) {
  steps = vec4(1.0);
  minimums = vec4(0.0);
}
#endif
