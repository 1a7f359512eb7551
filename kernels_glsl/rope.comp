#version 450
#extension GL_GOOGLE_include_directive : require
// Rotary positions: a lane a pair of values. A pair turns by position * frequency; the frequency
// is a fraction of a whole turn in 64-bit fixed point, so that the product, taken modulo one turn,
// is exact at any position without float64. core/exec/reference.py defines the op.
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 2;
layout(constant_id = 3) const uint HEAD_DIM = 2;
layout(constant_id = 4) const uint ROTARY_DIM = 2;
layout(constant_id = 5) const uint HALF_SPLIT = 0;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Frequencies { uvec2 frequencies[]; };  // (low, high) words
layout(binding = 3) writeonly buffer Y { float y[]; };

// Upper 32 bits of position * frequency modulo one turn.
uint turned(uint position, uvec2 frequency) {
  uint high, low;
  umulExtended(position, frequency.x, high, low);
  return high + position * frequency.y;
}

// (cos, sin) of turn / 2^32 turns, by Taylor series within an eighth of a turn: GLSL's own cos and
// sin are only promised to 2^-11.
vec2 cos_sin(uint turn) {
  uint quarter = (turn + 0x20000000u) >> 30;
  float a = float(int(turn - (quarter << 30))) * (6.283185307179586 / 4294967296.0);
  float s = a * a;
  float sine = a * (1.0 + s * (-1.0 / 6.0 + s * (1.0 / 120.0 + s * (-1.0 / 5040.0 + s / 362880.0))));
  float cosine = 1.0 + s * (-0.5 + s * (1.0 / 24.0 + s * (-1.0 / 720.0 + s / 40320.0)));
  vec2 at = (quarter & 1u) == 0 ? vec2(cosine, sine) : vec2(-sine, cosine);
  return (quarter & 2u) == 0 ? at : -at;
}

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
    turn = cos_sin(turned(start_position() + row, frequencies[pair]));
  }
  float a = x[first], b = x[second];
  y[first] = a * turn.x - b * turn.y;
  y[second] = a * turn.y + b * turn.x;
}
