// Values of a cache, as keys.glsl; value_pair gives one pair of a head, unscaled.
#if defined(VALUES_I8)
layout(binding = VALUES_BINDING) readonly buffer VALUES_BLOCK { uint value_words[]; };
const uint VALUE_ROW_WORDS = (KV_HEADS * HEAD_DIM + 2 * KV_HEADS + 3) / 4;
#include "common/bytes.glsl"

vec2 value_pair(uint row, uint group, uint p) {
  uint word = value_words[row * VALUE_ROW_WORDS + group * HEAD_DIM / 4 + p / 2];
  int first = int(p % 2) * 2;
  return vec2(byte_of(word, first), byte_of(word, first + 1));
}

float value_scale(uint row, uint group) {
  uint at = KV_HEADS * HEAD_DIM / 2 + group;  // in halves
  vec2 pair = unpackHalf2x16(value_words[row * VALUE_ROW_WORDS + at / 2]);
  return at % 2 == 0 ? pair.x : pair.y;
}
#else
#if defined(VALUES_F16)
layout(binding = VALUES_BINDING) readonly buffer VALUES_BLOCK { uint value_words[]; };
vec2 value_at(uint at) { return unpackHalf2x16(value_words[at]); }
#else
layout(binding = VALUES_BINDING) readonly buffer VALUES_BLOCK { vec2 value_words[]; };
vec2 value_at(uint at) { return value_words[at]; }
#endif

vec2 value_pair(uint row, uint group, uint p) {
  return value_at((row * KV_HEADS + group) * PAIRS + p);
}

float value_scale(uint row, uint group) { return 1.0; }
#endif
