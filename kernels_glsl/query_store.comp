#version 450
#extension GL_GOOGLE_include_directive : require
// ring[(start + t) mod RING_ROWS] = q[t]; a lane a pair of values.
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/cache.glsl"
layout(constant_id = 2) const uint COLUMNS = 2;
layout(constant_id = 3) const uint RING_ROWS = 1;
layout(binding = 1) readonly buffer Q { float q[]; };
layout(binding = 2) writeonly buffer QRing { CACHE_WORD q_ring[]; };

void main() {
  uint t = gl_WorkGroupID.y, pair = gl_GlobalInvocationID.x;
  if (t >= rows_in_use() || pair >= COLUMNS / 2) return;
  uint from = t * COLUMNS + 2 * pair;
  uint row = (start_position() + t) % RING_ROWS;
  q_ring[row * (COLUMNS / 2) + pair] = pack_pair(vec2(q[from], q[from + 1]));
}
