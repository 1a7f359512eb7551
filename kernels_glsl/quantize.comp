#version 450
#extension GL_GOOGLE_include_directive : require
// Float rows to int8 blocks of 32 (core/quant/blocks/a8.py defines them); a lane a block.
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint K = 32;
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) writeonly buffer Y { uint y[]; };

const float SMALLEST_NORMAL = 1.17549435e-38;
const uint BLOCKS = K / 32;
const uint ROW_WORDS = K / 4 + 3 * BLOCKS;

void main() {
  uint row = gl_WorkGroupID.y, block = gl_GlobalInvocationID.x;
  if (row >= rows_in_use() || block >= BLOCKS) return;
  uint at = row * K + block * 32;
  float low = 0.0, high = 0.0, not_finite = 0.0;
  for (uint i = 0; i < 32; ++i) {
    float value = x[at + i];
    low = min(low, value);
    high = max(high, value);
    if ((isnan(value) || isinf(value)) && !isnan(not_finite)) not_finite = abs(value);
  }
  bool finite = not_finite == 0.0;
  precise float scale = finite ? high / 254.0 - low / 254.0 : not_finite;
  if (scale < SMALLEST_NORMAL) scale = 0.0;
  bool usable = finite && scale > 0.0;
  float inverse = usable ? 1.0 / scale : 0.0;
  int zero = usable ? clamp(int(roundEven(low * inverse)) + 127, -127, 127) : 0;
  int total = 32 * zero;
  for (uint word = 0; word < 8; ++word) {
    uint packed = 0;
    for (uint i = 0; i < 4; ++i) {
      float value = usable ? roundEven(x[at + 4 * word + i] * inverse) : 0.0;
      int q = clamp(int(value) - zero, -127, 127);
      total += q;
      packed |= (uint(q) & 255u) << (8 * i);
    }
    y[row * ROW_WORDS + block * 8 + word] = packed;
  }
  uint scales = row * ROW_WORDS + K / 4;
  y[scales + 2 * block] = floatBitsToUint(scale);
  y[scales + 2 * block + 1] = floatBitsToUint(scale * float(total));
  y[scales + 2 * BLOCKS + block] = (uint(total) << 16) | (uint(zero) & 65535u);
}
