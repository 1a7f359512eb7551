#version 450
#extension GL_GOOGLE_include_directive : require
// Row scores summed over a head's rows. A workgroup a head; six sums: entropy, previous token,
// same token, token after the same, first token, number of rows.
#include "common/lanes.glsl"
layout(push_constant) uniform Push { uint stride, rows; };  // rows kept a head, rows in use
layout(binding = 0) readonly buffer RowScores { uint row_scores[]; };
layout(binding = 1) writeonly buffer Sums { float sums[]; };
const uint COUNT = 6;
shared float parts[COUNT * LANES];

void main() {
  uint lane = gl_LocalInvocationIndex;
  vec2 sum[3] = vec2[](vec2(0.0), vec2(0.0), vec2(0.0));
  for (uint row = lane; row < rows; row += LANES) {
    uint at = (gl_WorkGroupID.x * stride + row) * 3;
    for (uint i = 0; i < 3; ++i) sum[i] += unpackHalf2x16(row_scores[at + i]);
  }
  for (uint i = 0; i < COUNT; ++i) parts[i * LANES + lane] = sum[i / 2][i % 2];
  barrier();
  if (lane >= COUNT) return;
  float whole = 0.0;
  for (uint l = 0; l < LANES; ++l) whole += parts[lane * LANES + l];
  sums[gl_WorkGroupID.x * COUNT + lane] = whole;
}
