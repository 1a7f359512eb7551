#version 450
#extension GL_GOOGLE_include_directive : require
// cache[start + t] = k[t], v[t]; a lane a pair of values.
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/cache.glsl"
layout(constant_id = 2) const uint COLUMNS = 2;
layout(binding = 1) readonly buffer K { float k[]; };
layout(binding = 2) readonly buffer V { float v[]; };
layout(binding = 3) writeonly buffer KCache { CACHE_WORD k_cache[]; };
layout(binding = 4) writeonly buffer VCache { CACHE_WORD v_cache[]; };

void main() {
  uint t = gl_WorkGroupID.y, pair = gl_GlobalInvocationID.x;
  if (t >= rows_in_use() || pair >= COLUMNS / 2) return;
  uint from = t * COLUMNS + 2 * pair;
  uint to = (start_position() + t) * (COLUMNS / 2) + pair;
  k_cache[to] = pack_pair(vec2(k[from], k[from + 1]));
  v_cache[to] = pack_pair(vec2(v[from], v[from + 1]));
}
