// A cache of keys or values, for keys.glsl and values.glsl: a row a position, in it KV_HEADS heads of
// HEAD_DIM values as floats, halves (ROWS_F16), or int8 (ROWS_I8) or rotated int4 (ROWS_I4) with a half
// for each head behind them, its scale. NAMED(NAME) names what is declared here, ROWS_BLOCK and
// ROWS_BINDING the buffer.
//   pair(row, group, p)         2 values of a head, from 2p on, unscaled
//   four(row, group, i)         4, from 4i on; of ROWS_I8 only
//   eight(row, group, i, x)     8, from 8i on; with TEXELS, and instead of pair; of ROWS_I4 always
//   scale(row, group)
#include "common/words.glsl"

#if defined(ROWS_I8) || defined(ROWS_I4)
#ifdef TEXELS
layout(binding = ROWS_BINDING, r32ui) uniform readonly uimageBuffer ROWS_BLOCK;
uint NAMED(word)(uint at) { return imageLoad(ROWS_BLOCK, int(at)).x; }
#else
layout(binding = ROWS_BINDING) readonly buffer ROWS_BLOCK { uint NAMED(stored)[]; };
uint NAMED(word)(uint at) { return NAMED(stored)[at]; }
#endif
#ifdef ROWS_I8
const uint NAMED(value_words) = KV_HEADS * HEAD_DIM / 4;
#else
const uint NAMED(value_words) = KV_HEADS * HEAD_DIM / 8;
#endif
const uint NAMED(row_words) = NAMED(value_words) + (KV_HEADS + 1) / 2;

float NAMED(scale)(uint row, uint group) {
  uint word = NAMED(word)(row * NAMED(row_words) + NAMED(value_words) + group / 2);
  return half_of(word >> (group % 2 * 16), 0);
}

#ifdef ROWS_I8
uint NAMED(four_bytes)(uint row, uint group, uint i) {
  return NAMED(word)(row * NAMED(row_words) + group * (HEAD_DIM / 4) + i);
}

vec4 NAMED(four)(uint row, uint group, uint i) { return vec4(bytes_of(NAMED(four_bytes)(row, group, i))); }

#ifdef TEXELS
void NAMED(eight)(uint row, uint group, uint i, out vec4 x[2]) {
  x[0] = NAMED(four)(row, group, 2 * i);
  x[1] = NAMED(four)(row, group, 2 * i + 1);
}
#else
vec2 NAMED(pair)(uint row, uint group, uint p) {
  uint word = NAMED(four_bytes)(row, group, p / 2), first = p % 2 * 2;
  return vec2(byte_of(word, first), byte_of(word, first + 1));
}
#endif

#else
uint NAMED(eight_nibbles)(uint row, uint group, uint i) {
  return NAMED(word)(row * NAMED(row_words) + group * (HEAD_DIM / 8) + i);
}

void NAMED(eight)(uint row, uint group, uint i, out vec4 x[2]) {
  uint word = NAMED(eight_nibbles)(row, group, i);
  x[0] = levels_i4(word);
  x[1] = levels_i4(word >> 16);
}

#ifndef TEXELS
vec2 NAMED(pair)(uint row, uint group, uint p) {
  return levels_i4(NAMED(eight_nibbles)(row, group, p / 4) >> (p % 4 * 8)).xy;
}
#endif
#endif

#else
float NAMED(scale)(uint row, uint group) { return 1.0; }

#ifdef TEXELS
layout(binding = ROWS_BINDING, rgba32ui) uniform readonly uimageBuffer ROWS_BLOCK;

void NAMED(eight)(uint row, uint group, uint i, out vec4 x[2]) {
  uint at = (row * KV_HEADS + group) * (HEAD_DIM / 8) + i;
#ifdef ROWS_F16
  uvec4 words = imageLoad(ROWS_BLOCK, int(at));
  x[0] = vec4(halves_of(words.x), halves_of(words.y));
  x[1] = vec4(halves_of(words.z), halves_of(words.w));
#else
  x[0] = uintBitsToFloat(imageLoad(ROWS_BLOCK, int(2 * at)));
  x[1] = uintBitsToFloat(imageLoad(ROWS_BLOCK, int(2 * at + 1)));
#endif
}
#elif defined(ROWS_F16)
layout(binding = ROWS_BINDING) readonly buffer ROWS_BLOCK { uint NAMED(stored)[]; };
vec2 NAMED(pair_at)(uint at) { return halves_of(NAMED(stored)[at]); }
#else
layout(binding = ROWS_BINDING) readonly buffer ROWS_BLOCK { vec2 NAMED(stored)[]; };
vec2 NAMED(pair_at)(uint at) { return NAMED(stored)[at]; }
#endif
#ifndef TEXELS
vec2 NAMED(pair)(uint row, uint group, uint p) {
  return NAMED(pair_at)((row * KV_HEADS + group) * (HEAD_DIM / 2) + p);
}
#endif
#endif
#undef NAMED
#undef ROWS_BLOCK
#undef ROWS_BINDING
#undef ROWS_I8
#undef ROWS_I4
#undef ROWS_F16
