#version 450
#extension GL_GOOGLE_include_directive : require
// Values of a map to RGBA8: through a table of 256 colours, linear or logarithmic. What holds
// nothing (above the diagonal, outside a window, not computed) is transparent.
#include "common/lanes.glsl"
layout(push_constant) uniform Push {
  uint first_span;
  uint logarithmic;
  float low, high;  // values at the ends of the table
};
layout(binding = 0) readonly buffer Spans { uvec2 spans[]; };  // first pixel, number of pixels
layout(binding = 1) readonly buffer Values { uint values[]; };
layout(binding = 2) readonly buffer Table { uint table[]; };
layout(binding = 3) writeonly buffer Colors { uint colors[]; };

uint color(uint word) {
  if (word == 0) return 0;
  float value = uintBitsToFloat(word - 1);
  float share = logarithmic != 0 ? log(max(value, low) / low) / log(high / low)
                                 : (value - low) / (high - low);
  return table[uint(clamp(share, 0.0, 1.0) * 255.0 + 0.5)];
}

void main() {
  uvec2 span = spans[first_span + gl_WorkGroupID.x];
  for (uint i = gl_LocalInvocationIndex; i < span.y; i += LANES)
    colors[span.x + i] = color(values[span.x + i]);
}
