#version 450
#extension GL_GOOGLE_include_directive : require
// Rotary positions (common/rotary.glsl): a lane a pair of values.
#include "common/step.glsl"
#include "common/positions.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 2;
layout(constant_id = 3) const uint HEAD_DIM = 2;
layout(constant_id = 4) const uint ROTARY_DIM = 2;
layout(constant_id = 5) const uint HALF_SPLIT = 0;
layout(constant_id = 6) const float TEMPERATURE = 0.0;  // 0: none
layout(constant_id = 7) const uint TEMPERATURE_LENGTH = 1;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Frequencies { uvec2 frequencies[]; };  // (low, high) words
layout(binding = 3) writeonly buffer Y { float y[]; };

#include "common/rotary.glsl"

void main() {
  uint row = gl_WorkGroupID.y, item = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || item >= COLUMNS / 2) return;
  uint pairs = ROTARY_DIM / 2, pair = item % (HEAD_DIM / 2);
  uint head = row * COLUMNS + item / (HEAD_DIM / 2) * HEAD_DIM;
  uint first = head + 2 * pair, second = first + 1;
  vec2 turn = vec2(1.0, 0.0);
  if (pair < pairs) {
    if (HALF_SPLIT != 0) {
      first = head + pair;
      second = first + pairs;
    }
    turn = cos_sin(turned(position_of(row), frequencies[pair]));
  }
  turn *= query_temperature(position_of(row));
  float a = x[first], b = x[second];
  y[first] = a * turn.x - b * turn.y;
  y[second] = a * turn.y + b * turn.x;
}
