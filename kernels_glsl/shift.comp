#version 450
#extension GL_GOOGLE_include_directive : require
// y = x + what the token's sequence has for this layer
#include "common/step.glsl"
#include "common/positions.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint SLOT_LAYERS = 0;  // rows of shifts of one sequence
layout(constant_id = 4) const uint LAYER = 0;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Shifts { float shifts[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };

void main() {
  uint token = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x;
  if (token >= rows_in_use() || column >= COLUMNS) return;
  uint i = token * COLUMNS + column;
  y[i] = x[i] + shifts[(slot_of(token) * SLOT_LAYERS + LAYER) * COLUMNS + column];
}
