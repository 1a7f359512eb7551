#version 450
#extension GL_GOOGLE_include_directive : require
// y[T*k,N]: row r = x[r] + bias[e*N:(e+1)*N], e the expert that has the row
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/experts.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Bias { float bias[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  y[row * COLUMNS + column] = x[row * COLUMNS + column] + bias[expert_of(row) * COLUMNS + column];
}
