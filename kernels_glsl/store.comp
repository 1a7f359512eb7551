#version 450
#extension GL_GOOGLE_include_directive : require
// cache[row of token t] = rows[t] for up to three caches at once (keys, values, queries).
// A lane a pair of values, in int8 and int4 two blocks; the lanes of a row serve the caches in turn. Rows A
// and C are turned by their positions first where TURN says so, as the op `rope` does, C (queries, which
// may have a temperature) for others to read too.
#include "common/step.glsl"
#include "common/positions.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint TYPE_A = 0;  // TYPE_F32, TYPE_F16, TYPE_I8 or TYPE_I4
layout(constant_id = 3) const uint COLUMNS_A = 0;  // none: there is no such cache
layout(constant_id = 4) const uint CACHE_ROWS_A = 1;
layout(constant_id = 5) const uint BLOCK_A = 4;  // values that share a scale in int8 and int4
layout(constant_id = 6) const uint TYPE_B = 0;
layout(constant_id = 7) const uint COLUMNS_B = 0;
layout(constant_id = 8) const uint CACHE_ROWS_B = 1;
layout(constant_id = 9) const uint BLOCK_B = 4;
layout(constant_id = 10) const uint TYPE_C = 0;
layout(constant_id = 11) const uint COLUMNS_C = 0;
layout(constant_id = 12) const uint CACHE_ROWS_C = 1;
layout(constant_id = 13) const uint BLOCK_C = 4;
layout(constant_id = 14) const uint TURN_A = 0;  // not for int8 and int4
layout(constant_id = 15) const uint TURN_C = 0;
layout(constant_id = 16) const uint HEAD_DIM = 2;
layout(constant_id = 17) const uint ROTARY_DIM = 2;
layout(constant_id = 18) const uint HALF_SPLIT = 0;
layout(constant_id = 19) const float TEMPERATURE = 0.0;  // of rows C
layout(constant_id = 20) const uint TEMPERATURE_LENGTH = 1;
layout(constant_id = 21) const uint RING_ROWS_A = 0;  // of CACHE_ROWS_A, as cache_row takes it
layout(constant_id = 22) const uint RING_ROWS_B = 0;
layout(constant_id = 23) const uint RING_ROWS_C = 0;
layout(binding = 1) readonly buffer RowsA { float rows_a[]; };
layout(binding = 2) writeonly buffer CacheA { uint cache_a[]; };
layout(binding = 3) readonly buffer RowsB { float rows_b[]; };
layout(binding = 4) writeonly buffer CacheB { uint cache_b[]; };
layout(binding = 5) readonly buffer RowsC { float rows_c[]; };
layout(binding = 6) writeonly buffer CacheC { uint cache_c[]; };
layout(binding = 7) readonly buffer Frequencies { uvec2 frequencies[]; };  // (low, high) words
layout(binding = 8) writeonly buffer Turned { float turned_c[]; };
#include "common/cache_blocks.glsl"
#include "common/rotary.glsl"

// The pair that a column of a row is in: how it turns, and where the other value is.
vec2 turn_of(uint t, uint column, out uint other, out bool second) {
  uint place = column % HEAD_DIM, pairs = ROTARY_DIM / 2, pair = place / 2;
  second = place % 2 == 1;
  other = column ^ 1u;
  if (place >= ROTARY_DIM) return vec2(1.0, 0.0);
  if (HALF_SPLIT != 0) {
    pair = place % pairs;
    second = place >= pairs;
    other = second ? column - pairs : column + pairs;
  }
  return cos_sin(turned(position_of(t), frequencies[pair]));
}

float turned_value(vec2 turn, bool second, float own, float other) {
  return second ? other * turn.y + own * turn.x : own * turn.x - other * turn.y;
}

#define STORE store_a
#define X rows_a
#define CACHE cache_a
#define TYPE TYPE_A
#define COLUMNS COLUMNS_A
#define CACHE_ROWS CACHE_ROWS_A
#define RING_ROWS RING_ROWS_A
#define BLOCK BLOCK_A
#define VALUE value_a
#define TURN TURN_A
#include "common/store_rows.glsl"
#define STORE store_b
#define X rows_b
#define CACHE cache_b
#define TYPE TYPE_B
#define COLUMNS COLUMNS_B
#define CACHE_ROWS CACHE_ROWS_B
#define RING_ROWS RING_ROWS_B
#define BLOCK BLOCK_B
#define VALUE value_b
#define TURN 0
#include "common/store_rows.glsl"
#define STORE store_c
#define X rows_c
#define CACHE cache_c
#define TYPE TYPE_C
#define COLUMNS COLUMNS_C
#define CACHE_ROWS CACHE_ROWS_C
#define RING_ROWS RING_ROWS_C
#define BLOCK BLOCK_C
#define VALUE value_c
#define TURN TURN_C
#define FACTOR query_temperature(position_of(t))
#define KEPT turned_c
#include "common/store_rows.glsl"

void main() {
  uint t = gl_WorkGroupID.y, item = gl_GlobalInvocationID.x;
  if (t >= rows_in_use()) return;
  uint a = items_of(TYPE_A, COLUMNS_A, BLOCK_A);
  uint b = a + items_of(TYPE_B, COLUMNS_B, BLOCK_B);
  if (item < a)
    store_a(t, item);
  else if (item < b)
    store_b(t, item - a);
  else if (item < b + items_of(TYPE_C, COLUMNS_C, BLOCK_C))
    store_c(t, item - b);
}
