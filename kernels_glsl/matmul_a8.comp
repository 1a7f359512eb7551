#version 450
#extension GL_GOOGLE_include_directive : require
// As matmul.comp of int8 blocks of x: a tile of (8 * TILE_T) x (8 * TILE_N) outputs from one block of 32
// levels along K at a time, whose dot products are integers.
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
#include "common/dot.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };

const uint LANES = 64;
const uint TOKENS = 8 * TILE_T;
const uint OUTPUTS = 8 * TILE_N;
shared int x_tile[8 * TOKENS];   // [quad][token]
shared int w_tile[8 * OUTPUTS];  // [quad][output]
shared vec2 x_scales[TOKENS], w_scales[OUTPUTS];
shared int zeros[TOKENS], totals[OUTPUTS];  // totals: of a row's levels

// A lane has a row, of which it reads what lies together.
void load(uint first_token, uint first_output, uint block) {
  for (uint t = gl_LocalInvocationIndex; t < TOKENS; t += LANES) {
    uint row = min(first_token + t, rows_in_use() - 1);
    for (uint q = 0; q < 8; ++q) x_tile[q * TOKENS + t] = x_quad(row, block, q);
    x_scales[t] = x_scale(row, block);
    zeros[t] = x_zero(row, block);
  }
  for (uint n = gl_LocalInvocationIndex; n < OUTPUTS; n += LANES) {
    uint at = min(first_output + n, N - 1) * BLOCKS + block;
    int total = 0;
    for (uint q = 0; q < 8; ++q) {
      int w = int(quad(at, q));
      w_tile[q * OUTPUTS + n] = w;
      total += dot4(w, ONES);
    }
    w_scales[n] = quad_scale(at);
    totals[n] = total;
  }
}

void main() {
  uint first_token = gl_WorkGroupID.y * TOKENS, first_output = gl_WorkGroupID.x * OUTPUTS;
  if (first_token >= rows_in_use()) return;
  uint n = gl_LocalInvocationID.x, t = gl_LocalInvocationID.y;
  float sums[TILE_T * TILE_N];
  for (uint i = 0; i < TILE_T * TILE_N; ++i) sums[i] = 0.0;
  for (uint block = 0; block < BLOCKS; ++block) {
    load(first_token, first_output, block);
    barrier();
    int dots[TILE_T * TILE_N];
    for (uint i = 0; i < TILE_T * TILE_N; ++i) dots[i] = 0;
    for (uint q = 0; q < 8; ++q) {
      int w[TILE_N];
      for (uint j = 0; j < TILE_N; ++j) w[j] = w_tile[q * OUTPUTS + n + 8 * j];
      for (uint i = 0; i < TILE_T; ++i) {
        int x = x_tile[q * TOKENS + t + 8 * i];
        for (uint j = 0; j < TILE_N; ++j) dots[i * TILE_N + j] += dot4(x, w[j]);
      }
    }
    for (uint j = 0; j < TILE_N; ++j) {
      vec2 scale = w_scales[n + 8 * j];
      int total = totals[n + 8 * j];
      for (uint i = 0; i < TILE_T; ++i) {
        uint token = t + 8 * i;
        float product = float(dots[i * TILE_N + j] + zeros[token] * total);
        sums[i * TILE_N + j] += scale.x * x_scales[token].x * product + scale.y * x_scales[token].y;
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
