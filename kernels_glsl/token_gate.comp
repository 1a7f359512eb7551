#version 450
#extension GL_GOOGLE_include_directive : require
// y[T,N] = sigmoid(h[T,K] . weight[K]) * x[T,N], a gate for each token; a workgroup a row
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint K = 1;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer H { float h[]; };
layout(binding = 3) readonly buffer Weight { float weight[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationIndex;
  if (row >= rows_in_use()) return;
  float sum = 0.0;
  for (uint k = lane; k < K; k += LANES) sum += h[row * K + k] * weight[k];
  float gate = 1.0 / (1.0 + exp(-workgroup_sum(sum)));
  for (uint i = lane; i < COLUMNS; i += LANES) y[row * COLUMNS + i] = gate * x[row * COLUMNS + i];
}
