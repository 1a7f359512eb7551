#version 450
#extension GL_GOOGLE_include_directive : require
// y[t] = sum over j < TAPS of weight[column,j] * x[t - TAPS + 1 + j]. Before the tokens of a sequence stand the
// TAPS - 1 rows of its state, which then has the last ones. A lane is a column, through all tokens.
#include "common/step.glsl"
#include "common/positions.glsl"
#include "common/states.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint TAPS = 2;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Weight { float weight[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(binding = 4) buffer State { float state[]; };

void main() {
  uint column = gl_GlobalInvocationID.x;
  if (column >= COLUMNS) return;
  float rows[TAPS];  // the last ones, a ring: that of a token lies at its number mod TAPS
  for (uint s = 0; s < sequences(); ++s) {
    int before = state_before(s);
    for (uint i = 0; i + 1 < TAPS; ++i)
      rows[i] = before < 0 ? 0.0 : state[(uint(before) * (TAPS - 1) + i) * COLUMNS + column];
    uint next = TAPS - 1, first = first_token_of(s), end = end_of(s);
    for (uint t = first; t < end; ++t) {
      rows[next] = x[t * COLUMNS + column];
      next = (next + 1) % TAPS;  // the oldest
      precise float sum = 0.0;
      for (uint j = 0; j < TAPS; ++j) sum += weight[column * TAPS + j] * rows[(next + j) % TAPS];
      y[t * COLUMNS + column] = sum;
    }
    for (uint i = 0; i + 1 < TAPS; ++i)
      state[(state_left(s) * (TAPS - 1) + i) * COLUMNS + column] = rows[(next + 1 + i) % TAPS];
  }
}
