#version 450
#extension GL_GOOGLE_include_directive : require
// y = (x - mean(x)) / sqrt(var(x) + eps) * weight, with BIAS also + bias; a workgroup a row.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
#include "common/root.glsl"
layout(constant_id = 2) const uint K = 1;
layout(constant_id = 3) const float EPS = 1e-5;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Weight { float weight[]; };
#ifdef BIAS
layout(binding = 3) readonly buffer Bias { float bias[]; };
#endif
layout(binding = 4) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationIndex;
  if (row >= rows_in_use()) return;
  float part = 0.0;
  for (uint k = lane; k < K; k += LANES) part += x[row * K + k];
  float mean = workgroup_sum(part) / float(K);
  part = 0.0;
  for (uint k = lane; k < K; k += LANES) {
    float distance_to_mean = x[row * K + k] - mean;
    part += distance_to_mean * distance_to_mean;
  }
  float root = root_of(workgroup_sum(part) / float(K) + EPS);
  for (uint k = lane; k < K; k += LANES) {
    float value = (x[row * K + k] - mean) / root * weight[k];
#ifdef BIAS
    value += bias[k];
#endif
    y[row * K + k] = value;
  }
}
