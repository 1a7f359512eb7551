// Keys of a cache: key_scale and so on, see cache_rows.glsl. Needs KEYS_F16, KEYS_I8, KEYS_I4 or none,
// KEYS_BLOCK and KEYS_BINDING, KV_HEADS and HEAD_DIM. key_pairs gives the KEY_STEP pairs of a word from pair p on.
#define NAMED(NAME) key_##NAME
#define ROWS_BLOCK KEYS_BLOCK
#define ROWS_BINDING KEYS_BINDING
#if defined(KEYS_I8)
#define ROWS_I8
#elif defined(KEYS_I4)
#define ROWS_I4
#elif defined(KEYS_F16)
#define ROWS_F16
#endif
#include "common/cache_rows.glsl"

#if defined(KEYS_I8)
const uint KEY_STEP = 2;

void key_pairs(uint row, uint group, uint p, out vec2 pairs[KEY_STEP]) {
  vec4 four = key_four(row, group, p / 2);
  pairs[0] = four.xy;
  pairs[1] = four.zw;
}
#elif defined(KEYS_I4)
const uint KEY_STEP = 4;

void key_pairs(uint row, uint group, uint p, out vec2 pairs[KEY_STEP]) {
  vec4 eight[2];
  key_eight(row, group, p / 4, eight);
  pairs[0] = eight[0].xy;
  pairs[1] = eight[0].zw;
  pairs[2] = eight[1].xy;
  pairs[3] = eight[1].zw;
}
#elif !defined(TEXELS)
const uint KEY_STEP = 1;

void key_pairs(uint row, uint group, uint p, out vec2 pairs[KEY_STEP]) {
  pairs[0] = key_pair(row, group, p);
}
#endif
