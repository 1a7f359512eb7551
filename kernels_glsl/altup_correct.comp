#version 450
#extension GL_GOOGLE_include_directive : require
// y[T,i,K] = x[T,i,K] + (coefs[T,i] + 1) * (activated[T,K] - x[T,active,K])
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint N = 1;
layout(constant_id = 4) const uint ACTIVE = 0;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Activated { float activated[]; };
layout(binding = 3) readonly buffer Coefs { float coefs[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint streams = COLUMNS / N, stream = column / N, k = column % N;
  float innovation = activated[row * N + k] - x[row * COLUMNS + ACTIVE * N + k];
  float coef = coefs[row * streams + stream] + 1.0;
  y[row * COLUMNS + column] = x[row * COLUMNS + column] + coef * innovation;
}
