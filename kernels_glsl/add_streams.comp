#version 450
#extension GL_GOOGLE_include_directive : require
// y[T,i,K] = x[T,i,K] + a[T,K] for streams i >= first
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint N = 1;
layout(constant_id = 4) const uint FIRST = 0;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer A { float a[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  float value = x[row * COLUMNS + column];
  if (column / N >= FIRST) value += a[row * N + column % N];
  y[row * COLUMNS + column] = value;
}
