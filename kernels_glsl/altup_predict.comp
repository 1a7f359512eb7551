#version 450
#extension GL_GOOGLE_include_directive : require
// y[T,i,K] = x[T,i,K] + sum over j of coefs[T,i,j] * x[T,j,K], of STREAMS streams
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint STREAMS = 1;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Coefs { float coefs[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint row = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || column >= COLUMNS) return;
  uint n = COLUMNS / STREAMS, stream = column / n, k = column % n;
  float value = x[row * COLUMNS + column];
  for (uint j = 0; j < STREAMS; ++j)
    value += coefs[(row * STREAMS + stream) * STREAMS + j] * x[row * COLUMNS + j * n + k];
  y[row * COLUMNS + column] = value;
}
