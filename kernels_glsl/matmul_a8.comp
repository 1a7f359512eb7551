#version 450
#extension GL_GOOGLE_include_directive : require
// As matmul.comp of int8 blocks of x: the dot products of a block of 32 levels along K are integers.
#include "common/step.glsl"
#include "common/output_tile.glsl"
#include "common/weights.glsl"
#include "common/activations.glsl"
#include "common/dot.glsl"
shared int x_tile[8 * TOKENS];   // [quad][token]
shared int w_tile[8 * OUTPUTS];  // [quad][output]
shared vec2 x_scales[TOKENS], w_scales[OUTPUTS];
shared int zeros[TOKENS], totals[OUTPUTS];  // totals: of a row's levels

// A lane has a row, of which it reads what lies together.
void load(uint block) {
  for (uint t = gl_LocalInvocationIndex; t < TOKENS; t += LANES) {
    uint row = token_row(t);
    for (uint q = 0; q < 8; ++q) x_tile[q * TOKENS + t] = x_quad(row, block, q);
    x_scales[t] = x_scale(row, block);
    zeros[t] = x_zero(row, block);
  }
  for (uint n = gl_LocalInvocationIndex; n < OUTPUTS; n += LANES) {
    uint at = weight_row(n) * BLOCKS + block;
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
  if (first_token() >= rows_in_use()) return;
  uint n = gl_LocalInvocationID.x, t = gl_LocalInvocationID.y;
  float sums[SUMS];
  for (uint i = 0; i < SUMS; ++i) sums[i] = 0.0;
  for (uint block = 0; block < BLOCKS; ++block) {
    load(block);
    barrier();
    int dots[SUMS];
    for (uint i = 0; i < SUMS; ++i) dots[i] = 0;
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
  write_tile(sums);
}
