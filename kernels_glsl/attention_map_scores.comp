#version 450
#extension GL_GOOGLE_include_directive : require
// Row scores summed over a head's rows: SCORES of core/inspect/attention_scores.py in their order, then how
// many rows there are of each kind of its ROWS. A workgroup a head.
#include "common/halves.glsl"
#include "common/lanes.glsl"
layout(push_constant) uniform Push { uint stride, rows; };  // rows kept a head, rows in use
layout(binding = 0) readonly buffer RowScores { uint row_scores[]; };
layout(binding = 1) writeonly buffer Sums { float sums[]; };
const uint SCORES = 5, KINDS = 3, COUNT = SCORES + KINDS;
shared float parts[COUNT * LANES];

void main() {
  uint lane = gl_LocalInvocationIndex;
  vec4 shares = vec4(0.0);
  float first = 0.0;
  vec3 counts = vec3(0.0);
  for (uint row = lane; row < rows; row += LANES) {
    uint at = (gl_WorkGroupID.x * stride + row) * 3;
    vec2 last = halves_of(row_scores[at + 2]);  // first token, kind
    shares += vec4(halves_of(row_scores[at]), halves_of(row_scores[at + 1]));
    first += last.x;
    counts += step(vec3(1.0, 2.0, 3.0), vec3(last.y));
  }
  for (uint i = 0; i < 4; ++i) parts[i * LANES + lane] = shares[i];
  parts[4 * LANES + lane] = first;
  for (uint i = 0; i < KINDS; ++i) parts[(SCORES + i) * LANES + lane] = counts[i];
  barrier();
  for (uint i = lane; i < COUNT; i += LANES) {
    float whole = 0.0;
    for (uint l = 0; l < LANES; ++l) whole += parts[i * LANES + l];
    sums[gl_WorkGroupID.x * COUNT + i] = whole;
  }
}
