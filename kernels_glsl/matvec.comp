#version 450
#extension GL_GOOGLE_include_directive : require
// The op `matmul` for one row of x: y[N] = x[K] . weight[N,K]^T.
// A workgroup makes ROWS outputs: what a lane loads of x serves ROWS rows of the weight.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const uint N = 1;            // rows of this part of the weight
layout(constant_id = 4) const uint FIRST_ROW = 0;    // where the part begins in y
layout(constant_id = 5) const uint ROWS = 4;
#include "common/weights.glsl"
#include "common/activations.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };

void main() {
  if (rows_in_use() == 0) return;
  uint lane = gl_LocalInvocationIndex, first = gl_WorkGroupID.x * ROWS;
  float sums[ROWS];
  for (uint r = 0; r < ROWS; ++r) sums[r] = 0.0;
  for (uint block = lane; block < BLOCKS; block += LANES) {
    float levels[ROWS];
    for (uint r = 0; r < ROWS; ++r) levels[r] = 0.0;
    float x_sum = 0.0;
    for (uint group = 0; group < 4; ++group) {
      float x[8];
      activation8(0, block, group, x);
#ifdef HAS_MINIMUM
      for (uint i = 0; i < 8; ++i) x_sum += x[i];
#endif
      for (uint r = 0; r < ROWS; ++r) {
        float w[8];
        levels8(min(first + r, N - 1) * BLOCKS + block, group, w);
        for (uint i = 0; i < 8; ++i) levels[r] += w[i] * x[i];
      }
    }
    for (uint r = 0; r < ROWS; ++r) {
      vec2 scale = scale_of(min(first + r, N - 1) * BLOCKS + block);
      sums[r] += levels[r] * scale.x + x_sum * scale.y;
    }
  }
  for (uint r = 0; r < ROWS; ++r) {
    float sum = workgroup_sum(sums[r]);
    if (lane == 0 && first + r < N) y[FIRST_ROW + first + r] = sum;
  }
}
