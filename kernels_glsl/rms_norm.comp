#version 450
#extension GL_GOOGLE_include_directive : require
// y = x / sqrt(mean(x^2) + eps) * weight; a workgroup a row.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
layout(constant_id = 2) const uint K = 1;
layout(constant_id = 3) const float EPS = 1e-5;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Weight { float weight[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationIndex;
  if (row >= rows_in_use()) return;
  float squares = 0.0;
  for (uint k = lane; k < K; k += LANES) squares += x[row * K + k] * x[row * K + k];
  float root = sqrt(workgroup_sum(squares) / float(K) + EPS);
  for (uint k = lane; k < K; k += LANES) y[row * K + k] = x[row * K + k] / root * weight[k];
}
