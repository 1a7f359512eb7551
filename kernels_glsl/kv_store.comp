#version 450
#extension GL_GOOGLE_include_directive : require
// cache[(start + t) mod CACHE_ROWS] = x[t], for keys and again for values; a lane a pair of values,
// of CACHE_I8 a block of int8 with its scale (core/quant/i8.py defines them).
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/cache.glsl"
layout(constant_id = 2) const uint COLUMNS = 2;
layout(constant_id = 3) const uint CACHE_ROWS = 1;
layout(binding = 1) readonly buffer X { float x[]; };
#ifdef CACHE_I8
layout(constant_id = 4) const uint BLOCK = 4;
layout(binding = 2) writeonly buffer Cache { uint cache[]; };
const uint BLOCKS = COLUMNS / BLOCK;
const uint ROW_WORDS = (COLUMNS + 2 * BLOCKS + 3) / 4;

float step_of(uint from) {  // rounded to float16
  float largest = 0.0;
  bool finite = true;
  for (uint i = 0; i < BLOCK; ++i) {
    float magnitude = abs(x[from + i]);
    finite = finite && !isnan(magnitude) && !isinf(magnitude);
    largest = max(largest, magnitude);
  }
  float scale = unpackHalf2x16(packHalf2x16(vec2(largest / 127.0, 0.0))).x;
  return finite ? scale : uintBitsToFloat(0x7FC00000u);
}

void main() {
  uint t = gl_WorkGroupID.y, pair = gl_GlobalInvocationID.x;  // of blocks: they share a word of scales
  if (t >= rows_in_use() || pair >= (BLOCKS + 1) / 2) return;
  uint to = (start_position() + t) % CACHE_ROWS * ROW_WORDS;
  vec2 scales = vec2(0.0);
  for (uint b = 2 * pair; b < min(2 * pair + 2, BLOCKS); ++b) {
    uint from = t * COLUMNS + b * BLOCK;
    float scale = step_of(from);
    scales[b % 2] = scale;
    float inverse = scale > 0.0 && !isinf(scale) ? 1.0 / scale : 0.0;
    for (uint word = 0; word < BLOCK / 4; ++word) {
      uint packed = 0;
      for (uint i = 0; i < 4; ++i) {
        float steps = inverse > 0.0 ? roundEven(x[from + 4 * word + i] * inverse) : 0.0;
        packed |= (uint(int(clamp(steps, -127.0, 127.0))) & 255u) << (8 * i);
      }
      cache[to + b * (BLOCK / 4) + word] = packed;
    }
  }
  cache[to + COLUMNS / 4 + pair] = packHalf2x16(scales);
}
#else
layout(binding = 2) writeonly buffer Cache { CACHE_WORD cache[]; };

void main() {
  uint t = gl_WorkGroupID.y, pair = gl_GlobalInvocationID.x;
  if (t >= rows_in_use() || pair >= COLUMNS / 2) return;
  uint from = t * COLUMNS + 2 * pair;
  uint to = (start_position() + t) % CACHE_ROWS * (COLUMNS / 2) + pair;
  cache[to] = pack_pair(vec2(x[from], x[from + 1]));
}
#endif
