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
shared vec2 x_scales[TOKENS], w_scales[OUTPUTS * SCALES];
shared int zeros[TOKENS], totals[OUTPUTS * SCALES];  // totals: of a row's levels
shared float x_sums[TOKENS * SCALES];

// A lane has a row, of which it reads what lies together.
void load(uint block) {
  for (uint t = gl_LocalInvocationIndex; t < TOKENS; t += LANES) {
    uint row = token_row(t);
    for (uint q = 0; q < 8; ++q) x_tile[q * TOKENS + t] = x_quad(row, block, q);
    x_scales[t] = x_scale(row, block);
    zeros[t] = x_zero(row, block);
    for (uint half_block = 0; half_block < SCALES; ++half_block) {
      int total = 0;
#if SCALES == 2
      for (uint i = 0; i < SCALE_QUADS; ++i)
        total += dot4(x_tile[(half_block * SCALE_QUADS + i) * TOKENS + t], ONES);
#endif
      x_sums[half_block * TOKENS + t] = sum_of(x_scales[t], zeros[t], total);
    }
  }
  for (uint n = gl_LocalInvocationIndex; n < OUTPUTS; n += LANES) {
    uint at = weight_row(n) * ROW_BLOCKS + block;
    for (uint half_block = 0; half_block < SCALES; ++half_block) {
      int total = 0;
      for (uint i = 0; i < SCALE_QUADS; ++i) {
        uint q = half_block * SCALE_QUADS + i;
        int w = int(quad(at, q));
        w_tile[q * OUTPUTS + n] = w;
        total += dot4(w, ONES);
      }
      w_scales[half_block * OUTPUTS + n] = quad_scale(at, half_block);
      totals[half_block * OUTPUTS + n] = total;
    }
  }
}

void main() {
  if (!find_tile()) return;
  uint n = gl_LocalInvocationID.x, t = gl_LocalInvocationID.y;
  float sums[SUMS];
  for (uint i = 0; i < SUMS; ++i) sums[i] = 0.0;
  for (uint block = 0; block < BLOCKS; ++block) {
    load(block);
    barrier();
    for (uint half_block = 0; half_block < SCALES; ++half_block) {
      int dots[SUMS];
      for (uint i = 0; i < SUMS; ++i) dots[i] = 0;
      for (uint quads = 0; quads < SCALE_QUADS; ++quads) {
        uint q = half_block * SCALE_QUADS + quads;
        int w[TILE_N];
        for (uint j = 0; j < TILE_N; ++j) w[j] = w_tile[q * OUTPUTS + n + 8 * j];
        for (uint i = 0; i < TILE_T; ++i) {
          int x = x_tile[q * TOKENS + t + 8 * i];
          for (uint j = 0; j < TILE_N; ++j) dots[i * TILE_N + j] += dot4(x, w[j]);
        }
      }
      for (uint j = 0; j < TILE_N; ++j) {
        vec2 scale = w_scales[half_block * OUTPUTS + n + 8 * j];
        int total = totals[half_block * OUTPUTS + n + 8 * j];
        for (uint i = 0; i < TILE_T; ++i) {
          uint token = t + 8 * i;
          float product = float(dots[i * TILE_N + j] + zeros[token] * total);
          sums[i * TILE_N + j] += scale.x * x_scales[token].x * product +
                                  scale.y * x_sums[half_block * TOKENS + token];
        }
      }
    }
    barrier();
  }
  write_tile(sums);
}
