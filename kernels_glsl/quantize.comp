#version 450
#extension GL_GOOGLE_include_directive : require
// Float rows to int8 blocks of 32 (core/quant/a8.py defines them); a lane a block.
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint K = 32;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { uint y[]; };

const float SMALLEST_NORMAL = 1.17549435e-38;
const uint BLOCKS = K / 32;
const uint ROW_WORDS = K / 4 + 2 * BLOCKS;

void main() {
  uint row = gl_WorkGroupID.y, block = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || block >= BLOCKS) return;
  uint at = row * K + block * 32;
  float largest = 0.0;
  bool finite = true;
  for (uint i = 0; i < 32; ++i) {
    float magnitude = abs(x[at + i]);
    finite = finite && !isnan(magnitude) && !isinf(magnitude);
    largest = isnan(magnitude) ? magnitude : max(largest, magnitude);
    if (isnan(magnitude)) break;
  }
  float scale = largest / 127.0;
  if (scale < SMALLEST_NORMAL) scale = 0.0;
  float inverse = finite && scale > 0.0 ? 1.0 / scale : 0.0;
  int total = 0;
  for (uint word = 0; word < 8; ++word) {
    uint packed = 0;
    for (uint i = 0; i < 4; ++i) {
      float value = finite ? roundEven(x[at + 4 * word + i] * inverse) : 0.0;
      int q = clamp(int(value), -127, 127);
      total += q;
      packed |= (uint(q) & 255u) << (8 * i);
    }
    y[row * ROW_WORDS + block * 8 + word] = packed;
  }
  y[row * ROW_WORDS + K / 4 + block] = floatBitsToUint(scale);
  y[row * ROW_WORDS + K / 4 + BLOCKS + block] = floatBitsToUint(scale * float(total));
}
