#version 450
#extension GL_GOOGLE_include_directive : require
// y = x * factor, with WEIGHT also * weight[column]
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const float FACTOR = 1.0;
layout(binding = 1) readonly buffer X { float x[]; };
#ifdef WEIGHT
layout(binding = 2) readonly buffer Weight { float weight[]; };
#endif
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint i = row * COLUMNS + column;
#ifdef WEIGHT
  y[i] = x[i] * FACTOR * weight[column];
#else
  y[i] = x[i] * FACTOR;
#endif
}
