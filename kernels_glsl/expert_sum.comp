#version 450
#extension GL_GOOGLE_include_directive : require
// y[T,N] = sum over i < k of shares[t,i] * x[places[t,i]]
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint COUNT = 1;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Places { float places[]; };
layout(binding = 3) readonly buffer Shares { float shares[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };

void main() {
  uint token = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (token >= rows_in_use() || column >= COLUMNS) return;
  float sum = 0.0;
  for (uint i = token * COUNT; i < (token + 1) * COUNT; ++i)
    sum += shares[i] * x[uint(places[i]) * COLUMNS + column];
  y[token * COLUMNS + column] = sum;
}
