#version 450
#extension GL_GOOGLE_include_directive : require
// A workgroup brings tiles of a and b into shared memory, where each value is read TILE times.
#include "study/operands.glsl"
shared float a_tile[TILE][TILE];  // [m][k]
shared float b_tile[TILE][TILE];  // [k][n]

void main() {
  uint n = gl_GlobalInvocationID.x, m = gl_GlobalInvocationID.y;
  uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
  float sum = 0.0;
  for (uint first = 0; first < K; first += TILE) {
    a_tile[y][x] = m < M && first + x < K ? a[m * K + first + x] : 0.0;
    b_tile[y][x] = n < N && first + y < K ? b[(first + y) * N + n] : 0.0;
    barrier();
    for (uint k = 0; k < TILE; ++k) sum += a_tile[y][k] * b_tile[k][x];
    barrier();
  }
  if (m < M && n < N) c[m * N + n] = sum;
}
