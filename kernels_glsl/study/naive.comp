#version 450
#extension GL_GOOGLE_include_directive : require
// As the formula says it: an invocation makes one output.
#include "study/operands.glsl"

void main() {
  uint n = gl_GlobalInvocationID.x, m = gl_GlobalInvocationID.y;
  if (m >= M || n >= N) return;
  float sum = 0.0;
  for (uint k = 0; k < K; ++k) sum += a[m * K + k] * b[n * K + k];
  c[m * N + n] = sum;
}
