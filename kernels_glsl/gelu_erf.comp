#version 450
#extension GL_GOOGLE_include_directive : require
// y = x * (1 + erf(x / sqrt(2))) / 2
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };

// By half of 1 - erf of x's magnitude (Abramowitz and Stegun 7.1.26): within 1e-7 * |x|, and
// negative values lose no digits.
float gelu_erf(float x) {
  float z = abs(x) * 0.7071067812, t = 1.0 / (1.0 + 0.3275911 * z);
  float p = ((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736;
  float rest = 0.5 * (p * t + 0.254829592) * t * exp(-z * z);
  return x < 0.0 ? x * rest : x - x * rest;
}

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint i = row * COLUMNS + column;
  y[i] = gelu_erf(x[i]);
}
