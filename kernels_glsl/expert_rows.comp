#version 450
#extension GL_GOOGLE_include_directive : require
// y[T*k,K]: row places[t,i] = x[t], float32 or a8, word by word
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;  // words of a row
layout(binding = 1) readonly buffer X { uint x[]; };
layout(binding = 2) readonly buffer Places { float places[]; };
layout(binding = 3) writeonly buffer Y { uint y[]; };

void main() {
  uint choice = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (choice >= rows_in_use() || column >= COLUMNS) return;
  y[uint(places[choice]) * COLUMNS + column] = x[choice / PER_TOKEN * COLUMNS + column];
}
