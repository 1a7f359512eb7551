#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// An invocation makes SIDE x SIDE outputs, TILE apart, in registers: each value that it reads of
// shared memory is used SIDE times.
#include "study/operands.glsl"
const uint SIDE = 4;
const uint EDGE = SIDE * TILE;    // of the outputs of a workgroup
shared float a_tile[EDGE][TILE];  // [m][k]
shared float b_tile[TILE][EDGE];  // [k][n]

void main() {
  uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
  uint n = gl_WorkGroupID.x * EDGE + x, m = gl_WorkGroupID.y * EDGE + y;
  float sums[SIDE][SIDE];
  [[unroll]] for (uint i = 0; i < SIDE * SIDE; ++i) sums[i / SIDE][i % SIDE] = 0.0;
  for (uint first = 0; first < K; first += TILE) {
    [[unroll]] for (uint i = 0; i < SIDE; ++i) {
      uint row = m + i * TILE, column = n + i * TILE;
      a_tile[y + i * TILE][x] = row < M && first + x < K ? a[row * K + first + x] : 0.0;
      b_tile[y][x + i * TILE] = column < N && first + y < K ? b[(first + y) * N + column] : 0.0;
    }
    barrier();
    for (uint k = 0; k < TILE; ++k) {
      float b_values[SIDE];
      [[unroll]] for (uint j = 0; j < SIDE; ++j) b_values[j] = b_tile[k][x + j * TILE];
      [[unroll]] for (uint i = 0; i < SIDE; ++i) {
        float a_value = a_tile[y + i * TILE][k];
        [[unroll]] for (uint j = 0; j < SIDE; ++j) sums[i][j] += a_value * b_values[j];
      }
    }
    barrier();
  }
  [[unroll]] for (uint i = 0; i < SIDE; ++i) {
    [[unroll]] for (uint j = 0; j < SIDE; ++j) {
      uint row = m + i * TILE, column = n + j * TILE;
      if (row < M && column < N) c[row * N + column] = sums[i][j];
    }
  }
}
