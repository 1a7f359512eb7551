#version 450
#extension GL_GOOGLE_include_directive : require
// y = cap * tanh(x * scale); GLSL's own tanh may overflow
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const float SCALE = 1.0;
layout(constant_id = 4) const float CAP = 1.0;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint i = row * COLUMNS + column;
  y[i] = CAP * (1.0 - 2.0 / (exp(2.0 * SCALE * x[i]) + 1.0));
}
