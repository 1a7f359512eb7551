#version 450
#extension GL_GOOGLE_include_directive : require
// y[O,K] = the rows of x[T,K] whose logits are wanted
#include "common/step.glsl"
#include "common/positions.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  y[row * COLUMNS + column] = x[output_token(row) * COLUMNS + column];
}
