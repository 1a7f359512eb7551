#version 450
#extension GL_GOOGLE_include_directive : require
// The op `matmul` for many rows of x: tiles of outputs from one block of 32 values along K at a time,
// dequantized into shared memory.
#include "common/step.glsl"
#include "common/output_tile.glsl"
#include "common/weights.glsl"
#include "common/activations.glsl"
shared float x_tile[32 * TOKENS];   // [k][token]
shared float w_tile[32 * OUTPUTS];  // [k][output]

void load_x(uint block) {
  for (uint i = gl_LocalInvocationIndex; i < TOKENS * 4; i += LANES) {
    uint token = i % TOKENS, group = i / TOKENS;
    float x[8];
    activation8(token_row(token), block, group, x);
    for (uint j = 0; j < 8; ++j) x_tile[position8(group, j) * TOKENS + token] = x[j];
  }
}

void load_w(uint block) {
  for (uint i = gl_LocalInvocationIndex; i < OUTPUTS * 4; i += LANES) {
    uint row = i % OUTPUTS, group = i / OUTPUTS;
    uint at = weight_row(row) * ROW_BLOCKS + block;
    float w[8];
    levels8(at, group, w);
    vec2 scale = scale_of(at);
    for (uint j = 0; j < 8; ++j)
      w_tile[position8(group, j) * OUTPUTS + row] = w[j] * scale.x + scale.y;
  }
}

void main() {
  if (!find_tile()) return;
  uint n = gl_LocalInvocationID.x, t = gl_LocalInvocationID.y;
  float sums[SUMS];
  for (uint i = 0; i < SUMS; ++i) sums[i] = 0.0;
  for (uint block = 0; block < BLOCKS; ++block) {
    load_x(block);
    load_w(block);
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
  write_tile(sums);
}
