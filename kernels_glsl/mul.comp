#version 450
#extension GL_GOOGLE_include_directive : require
// y = a * b
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(binding = 1) readonly buffer A { float a[]; };
layout(binding = 2) readonly buffer B { float b[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint i = row * COLUMNS + column;
  y[i] = a[i] * b[i];
}
