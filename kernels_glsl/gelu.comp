#version 450
#extension GL_GOOGLE_include_directive : require
// y = gelu(x), by its tanh approximation: (1 + tanh z) / 2 = 1 / (1 + e^-2z)
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint i = row * COLUMNS + column;
  float z = 0.7978845608 * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
  y[i] = x[i] / (1.0 + exp(-2.0 * z));
}
