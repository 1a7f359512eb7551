#version 450
#extension GL_GOOGLE_include_directive : require
// A cell pooled 2:1 by max into its upper left quarter, nothing elsewhere. A workgroup makes a row.
#include "common/lanes.glsl"
layout(push_constant) uniform Push { uint cell, width, height; };  // cell: its first pixel
layout(binding = 0) readonly buffer Values { uint values[]; };
layout(binding = 1) writeonly buffer Halved { uint halved[]; };

uint value_at(uint x, uint y) {
  return x < width && y < height ? values[cell + y * width + x] : 0;
}

void main() {
  uint y = gl_WorkGroupID.x;
  for (uint x = gl_LocalInvocationIndex; x < width; x += LANES) {
    uint left = 2 * x, top = 2 * y;
    uint upper = max(value_at(left, top), value_at(left + 1, top));
    uint lower = max(value_at(left, top + 1), value_at(left + 1, top + 1));
    halved[cell + y * width + x] = max(upper, lower);
  }
}
