#version 450
#extension GL_GOOGLE_include_directive : require
// The op `matmul` for few rows of x: y[T,N] = x[T,K] . weight[N,K]^T. The lanes of a workgroup share
// the blocks along K; what a lane loads of x serves ROWS rows of the weight, and the other way
// round TOKENS rows of x.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const uint N = 1;            // rows of this part of the weight
layout(constant_id = 4) const uint FIRST_ROW = 0;    // where the part begins in y
layout(constant_id = 5) const uint ROWS = 4;
layout(constant_id = 6) const uint TOKENS = 1;
layout(constant_id = 7) const uint Y_COLUMNS = 1;
#include "common/weights.glsl"
#include "common/activations.glsl"
#include "common/product.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(binding = 6) readonly buffer NormWeight { float norm_weight[]; };

const uint OUTPUTS = N / HALVES;
const uint SUMS = ROWS * HALVES * TOKENS;  // by half, row and token

uint weight_row(uint first, uint r) { return min(first + r % ROWS, OUTPUTS - 1) + r / ROWS * OUTPUTS; }

void main() {
  uint first_token = gl_WorkGroupID.y * TOKENS;
  if (first_token >= rows_in_use()) return;
  uint lane = gl_LocalInvocationIndex, first = gl_WorkGroupID.x * ROWS;
  float sums[SUMS], squares[TOKENS];
  for (uint i = 0; i < SUMS; ++i) sums[i] = 0.0;
  for (uint t = 0; t < TOKENS; ++t) squares[t] = 0.0;
  for (uint block = lane; block < BLOCKS; block += LANES) {
    float levels[SUMS], x_sums[TOKENS];
    for (uint i = 0; i < SUMS; ++i) levels[i] = 0.0;
    for (uint t = 0; t < TOKENS; ++t) x_sums[t] = 0.0;
    for (uint group = 0; group < 4; ++group) {
      float x[8 * TOKENS];
      for (uint t = 0; t < TOKENS; ++t) {
        float own[8];
        activation8(min(first_token + t, rows_in_use() - 1), block, group, own);
        for (uint i = 0; i < 8; ++i) {
          if (NORMED != 0) {
            squares[t] += own[i] * own[i];
            own[i] *= norm_weight[min(block * 32 + position8(group, i), K - 1)];
          }
          x[8 * t + i] = own[i];
#ifdef HAS_MINIMUM
          x_sums[t] += own[i];
#endif
        }
      }
      for (uint r = 0; r < ROWS * HALVES; ++r) {
        float w[8];
        levels8(weight_row(first, r) * BLOCKS + block, group, w);
        for (uint t = 0; t < TOKENS; ++t)
          for (uint i = 0; i < 8; ++i) levels[r * TOKENS + t] += w[i] * x[8 * t + i];
      }
    }
    for (uint r = 0; r < ROWS * HALVES; ++r) {
      vec2 scale = scale_of(weight_row(first, r) * BLOCKS + block);
      for (uint t = 0; t < TOKENS; ++t)
        sums[r * TOKENS + t] += levels[r * TOKENS + t] * scale.x + x_sums[t] * scale.y;
    }
  }
  float roots[TOKENS];
  for (uint t = 0; t < TOKENS; ++t)
    roots[t] = NORMED != 0 ? sqrt(workgroup_sum(squares[t]) / float(K) + EPS) : 1.0;
  for (uint i = 0; i < ROWS * TOKENS; ++i) {
    float value = workgroup_sum(sums[i]) / roots[i % TOKENS];
    if (HALVES == 2)
      value = gated(value, workgroup_sum(sums[ROWS * TOKENS + i]) / roots[i % TOKENS]);
    uint row = first + i / TOKENS, token = first_token + i % TOKENS;
    uint at = token * Y_COLUMNS + FIRST_ROW + row;
    if (lane == 0 && row < OUTPUTS && token < rows_in_use()) y[at] = added(value, at);
  }
}
