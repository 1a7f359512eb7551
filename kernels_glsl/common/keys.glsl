// Keys of a cache, a row a position: KEYS_F16 packs two float16 a word, KEYS_I8 has four int8 a word
// and behind them a float16 scale for each head. Needs KV_HEADS, HEAD_DIM and PAIRS; KEYS_BLOCK and
// KEYS_BINDING name the buffer. key_pairs gives KEY_STEP pairs of a head from pair p on, unscaled.
#if defined(KEYS_I8)
layout(binding = KEYS_BINDING) readonly buffer KEYS_BLOCK { uint key_words[]; };
const uint KEY_STEP = 2;
const uint KEY_ROW_WORDS = (KV_HEADS * HEAD_DIM + 2 * KV_HEADS + 3) / 4;
#include "common/bytes.glsl"

void key_pairs(uint row, uint group, uint p, out vec2 pairs[KEY_STEP]) {
  uint word = key_words[row * KEY_ROW_WORDS + group * HEAD_DIM / 4 + p / 2];
  pairs[0] = vec2(byte_of(word, 0), byte_of(word, 1));
  pairs[1] = vec2(byte_of(word, 2), byte_of(word, 3));
}

float key_scale(uint row, uint group) {
  uint at = KV_HEADS * HEAD_DIM / 2 + group;  // in halves
  vec2 pair = unpackHalf2x16(key_words[row * KEY_ROW_WORDS + at / 2]);
  return at % 2 == 0 ? pair.x : pair.y;
}
#else
const uint KEY_STEP = 1;
#if defined(KEYS_F16)
layout(binding = KEYS_BINDING) readonly buffer KEYS_BLOCK { uint key_words[]; };
vec2 key_pair(uint at) { return unpackHalf2x16(key_words[at]); }
#else
layout(binding = KEYS_BINDING) readonly buffer KEYS_BLOCK { vec2 key_words[]; };
vec2 key_pair(uint at) { return key_words[at]; }
#endif

void key_pairs(uint row, uint group, uint p, out vec2 pairs[KEY_STEP]) {
  pairs[0] = key_pair((row * KV_HEADS + group) * PAIRS + p);
}

float key_scale(uint row, uint group) { return 1.0; }
#endif
