#version 450
#extension GL_GOOGLE_include_directive : require
// y[T,K] = table[token], with POSITIONS table[SHIFT + position of the token], with TYPES table[how many
// SEPARATORs its sequence has before the token], each at most LAST_ROW; this dispatch holds table rows
// FIRST_ROW .. FIRST_ROW + ROWS.
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const uint FIRST_ROW = 0;
layout(constant_id = 4) const uint ROWS = 1;
#ifdef POSITIONS
#include "common/positions.glsl"
layout(constant_id = 5) const uint LAST_ROW = 0;  // of the whole table
layout(constant_id = 6) const uint SHIFT = 0;
uint row_of(uint t) { return min(SHIFT + position_of(t), LAST_ROW); }
#elif defined(TYPES)
#include "common/positions.glsl"
layout(constant_id = 5) const uint LAST_ROW = 0;  // of the whole table
layout(constant_id = 6) const uint SEPARATOR = 0;
uint row_of(uint t) {
  uint type = 0;
  for (uint i = t - position_of(t); i < t && type < LAST_ROW; ++i)
    if (uint(step_words[HEADER_WORDS + i]) == SEPARATOR) ++type;
  return type;
}
#else
uint row_of(uint t) { return uint(step_words[HEADER_WORDS + t]); }
#endif
#include "common/weights.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };

void main() {
  uint t = gl_WorkGroupID.y;
  if (t >= rows_in_use()) return;
  uint row = row_of(t) - FIRST_ROW;  // wraps below FIRST_ROW
  uint group = gl_GlobalInvocationID.x;
  if (row >= ROWS || group >= BLOCKS * 4) return;
  float w[8];
  uint block = row * ROW_BLOCKS + group / 4;
  levels8(block, group % 4, w);
  vec2 scale = scale_of(block);
  for (uint i = 0; i < 8; ++i) {
    uint k = group / 4 * 32 + position8(group % 4, i);
    if (k < K) y[t * K + k] = w[i] * scale.x + scale.y;
  }
}
