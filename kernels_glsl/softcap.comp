#version 450
#extension GL_GOOGLE_include_directive : require
// y = cap * tanh(x * scale)
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/tanh.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const float SCALE = 1.0;
layout(constant_id = 4) const float CAP = 1.0;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint i = row * COLUMNS + column;
  y[i] = CAP * tanh_of(SCALE * x[i]);
}
