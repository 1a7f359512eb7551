#version 450
#extension GL_GOOGLE_include_directive : require
// y[T,N] = x[T, first : first + N], or of every `stride` columns from there the first `run`
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint X_COLUMNS = 1;
layout(constant_id = 4) const uint FIRST = 0;
layout(constant_id = 5) const uint RUN = 1;
layout(constant_id = 6) const uint STRIDE = 1;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  y[row * COLUMNS + column] = x[row * X_COLUMNS + FIRST + column / RUN * STRIDE + column % RUN];
}
