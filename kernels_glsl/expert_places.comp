#version 450
#extension GL_GOOGLE_include_directive : require
// The choices of experts in the order of their experts, those of one expert as they come: the place of
// each, and where each expert begins. One workgroup, whose lanes count for an expert each, in turns.
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint EXPERTS = 1;
layout(constant_id = 3) const uint COUNT = 1;  // choices of a token
layout(binding = 1) readonly buffer Experts { float experts[]; };
layout(binding = 2) writeonly buffer Places { float places[]; };
layout(binding = 3) writeonly buffer Starts { float starts[]; };

shared uint begins[EXPERTS + 1];

void main() {
  uint lane = gl_LocalInvocationIndex, choices = rows_in_use() * COUNT;
  for (uint e = lane; e < EXPERTS; e += LANES) {
    uint found = 0;
    for (uint i = 0; i < choices; ++i) found += uint(experts[i]) == e ? 1 : 0;
    begins[e + 1] = found;
  }
  barrier();
  if (lane == 0) {
    begins[0] = 0;
    for (uint e = 0; e < EXPERTS; ++e) begins[e + 1] += begins[e];
    for (uint e = 0; e <= EXPERTS; ++e) starts[e] = float(begins[e]);
  }
  barrier();
  for (uint e = lane; e < EXPERTS; e += LANES) {
    uint place = begins[e];
    for (uint i = 0; i < choices; ++i)
      if (uint(experts[i]) == e) places[i] = float(place++);
  }
}
