#version 450
#extension GL_GOOGLE_include_directive : require
// y[T,K+N] = a[T,K] beside b[T,N]
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint A_COLUMNS = 1;
layout(binding = 1) readonly buffer A { float a[]; };
layout(binding = 2) readonly buffer B { float b[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  float value;
  if (column < A_COLUMNS) value = a[row * A_COLUMNS + column];
  else value = b[row * (COLUMNS - A_COLUMNS) + column - A_COLUMNS];
  y[row * COLUMNS + column] = value;
}
