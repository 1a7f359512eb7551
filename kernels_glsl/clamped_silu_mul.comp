#version 450
#extension GL_GOOGLE_include_directive : require
// y = g * sigmoid(alpha * g) * (u + 1), g the gate up to limit, u from -limit to limit
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const float ALPHA = 1.0;
layout(constant_id = 4) const float LIMIT = 1.0;
layout(binding = 1) readonly buffer Gate { float gate[]; };
layout(binding = 2) readonly buffer Up { float up[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint i = row * COLUMNS + column;
  float g = min(gate[i], LIMIT), u = clamp(up[i], -LIMIT, LIMIT);
  y[i] = g / (1.0 + exp(-ALPHA * g)) * (u + 1.0);
}
