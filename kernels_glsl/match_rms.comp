#version 450
#extension GL_GOOGLE_include_directive : require
// y = x * sqrt(mean(target^2) / max(mean(x^2), eps)); a workgroup a row.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
#include "common/root.glsl"
layout(constant_id = 2) const uint K = 1;
layout(constant_id = 3) const float EPS = 1e-5;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Target { float target[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationIndex;
  if (row >= rows_in_use()) return;
  float own = 0.0, wanted = 0.0;
  for (uint k = lane; k < K; k += LANES) {
    own += x[row * K + k] * x[row * K + k];
    wanted += target[row * K + k] * target[row * K + k];
  }
  own = workgroup_sum(own) / float(K);
  wanted = workgroup_sum(wanted) / float(K);
  float ratio = root_of(wanted) / root_of(own < EPS ? EPS : own);
  for (uint k = lane; k < K; k += LANES) y[row * K + k] = x[row * K + k] * ratio;
}
