#version 450
#extension GL_GOOGLE_include_directive : require
// y[T,N] = x[T,K] . weight[N,K]^T. A workgroup makes a tile of (8 * TILE_T) x (8 * TILE_N) outputs
// from one block of 32 values along K at a time, dequantized into shared memory; a lane TILE_T x TILE_N.
#include "common/step.glsl"
layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const uint N = 1;            // rows of this part of the weight
layout(constant_id = 4) const uint FIRST_ROW = 0;    // where the part begins in a row of y
layout(constant_id = 5) const uint Y_COLUMNS = 1;
layout(constant_id = 6) const uint TILE_T = 4;
layout(constant_id = 7) const uint TILE_N = 4;
#include "common/weights.glsl"
#include "common/activations.glsl"
#include "common/product.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };

const uint LANES = 64;
const uint TOKENS = 8 * TILE_T;
const uint OUTPUTS = 8 * TILE_N;
shared float x_tile[32 * TOKENS];   // [k][token]
shared float w_tile[32 * OUTPUTS];  // [k][output]

void load_x(uint first, uint block) {
  for (uint i = gl_LocalInvocationIndex; i < TOKENS * 4; i += LANES) {
    uint token = i % TOKENS, group = i / TOKENS;
    float x[8];
    activation8(min(first + token, rows_in_use() - 1), block, group, x);
    for (uint j = 0; j < 8; ++j) x_tile[position8(group, j) * TOKENS + token] = x[j];
  }
}

void load_w(uint first, uint block) {
  for (uint i = gl_LocalInvocationIndex; i < OUTPUTS * 4; i += LANES) {
    uint row = i % OUTPUTS, group = i / OUTPUTS;
    uint at = min(first + row, N - 1) * BLOCKS + block;
    float w[8];
    levels8(at, group, w);
    vec2 scale = scale_of(at);
    for (uint j = 0; j < 8; ++j)
      w_tile[position8(group, j) * OUTPUTS + row] = w[j] * scale.x + scale.y;
  }
}

void main() {
  uint first_token = gl_WorkGroupID.y * TOKENS, first_output = gl_WorkGroupID.x * OUTPUTS;
  if (first_token >= rows_in_use()) return;
  uint n = gl_LocalInvocationID.x, t = gl_LocalInvocationID.y;
  float sums[TILE_T * TILE_N];
  for (uint i = 0; i < TILE_T * TILE_N; ++i) sums[i] = 0.0;
  for (uint block = 0; block < BLOCKS; ++block) {
    load_x(first_token, block);
    load_w(first_output, block);
    barrier();
    for (uint k = 0; k < 32; ++k) {
      float w[TILE_N];
      for (uint j = 0; j < TILE_N; ++j) w[j] = w_tile[k * OUTPUTS + n + 8 * j];
      for (uint i = 0; i < TILE_T; ++i) {
        float x = x_tile[k * TOKENS + t + 8 * i];
        for (uint j = 0; j < TILE_N; ++j) sums[i * TILE_N + j] += x * w[j];
      }
    }
    barrier();
  }
  for (uint i = 0; i < TILE_T; ++i) {
    uint token = first_token + t + 8 * i;
    for (uint j = 0; j < TILE_N; ++j) {
      uint output_row = first_output + n + 8 * j;
      uint at = token * Y_COLUMNS + FIRST_ROW + output_row;
      if (token < rows_in_use() && output_row < N) y[at] = added(sums[i * TILE_N + j], at);
    }
  }
}
