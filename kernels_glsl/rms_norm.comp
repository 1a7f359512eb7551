#version 450
#extension GL_GOOGLE_include_directive : require
// y = x / sqrt(mean(x^2) + eps) * weight, over each K values of a row; a workgroup for each.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
#include "common/root.glsl"
layout(constant_id = 2) const uint K = 1;
layout(constant_id = 3) const float EPS = 1e-5;
layout(constant_id = 4) const uint GROUPS = 1;  // of a row
layout(binding = 1) readonly buffer X { float x[]; };
#ifdef WEIGHT
layout(binding = 2) readonly buffer Weight { float weight[]; };
#endif
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationIndex;
  if (row >= rows_in_use()) return;
  uint first = (row * GROUPS + gl_WorkGroupID.y) * K;
  float squares = 0.0;
  for (uint k = lane; k < K; k += LANES) squares += x[first + k] * x[first + k];
  float root = root_of(workgroup_sum(squares) / float(K) + EPS);
#ifdef WEIGHT
  for (uint k = lane; k < K; k += LANES) y[first + k] = x[first + k] / root * weight[k];
#else
  for (uint k = lane; k < K; k += LANES) y[first + k] = x[first + k] / root;
#endif
}
