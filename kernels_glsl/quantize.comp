#version 450
#extension GL_GOOGLE_include_directive : require
// Float rows to int8 blocks of 32 (core/quant/blocks/a8.py defines them), with NORM rows after their
// norm (rms_norm.comp, in the same order). BLOCK_LANES lanes share a block.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/lanes.glsl"
#ifdef NORM
#include "common/reduce.glsl"
#include "common/root.glsl"
#endif
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const float EPS = 1e-5;
layout(constant_id = 4) const uint BLOCK_LANES = 8;  // 1, 2, 4 or 8, at most LANES
layout(binding = 1) readonly buffer X { float x[]; };
#ifdef NORM
layout(binding = 2) readonly buffer Weight { float weight[]; };
#endif
layout(binding = 3) writeonly buffer Y { uint y[]; };

const float SMALLEST_NORMAL = 1.17549435e-38;
const uint BLOCKS = K / 32, WORDS = K / 4;
const uint ROW_WORDS = WORDS + 3 * BLOCKS;
const uint PARTS = BLOCKS * BLOCK_LANES, VALUES = 32 / BLOCK_LANES;  // of a row, of a part
// Of a lane's part of a block; where a lane has a whole one, nothing is shared.
shared float lows[LANES], highs[LANES], unfit[LANES];  // unfit: a value that is not finite, or 0
shared int totals[LANES];

#ifdef NORM
float root;
float value(uint row, uint k) { return x[row * K + k] / root * weight[k]; }
#else
float value(uint row, uint k) { return x[row * K + k]; }
#endif

// All lanes of a workgroup call it together, those behind the row's end too.
void pack(uint row, uint part) {
  uint lane = gl_LocalInvocationIndex, first = lane / BLOCK_LANES * BLOCK_LANES;
  uint block = part / BLOCK_LANES, k = min(part, PARTS - 1) * VALUES;
  float low = 0.0, high = 0.0, not_finite = 0.0;
  for (uint i = 0; i < VALUES; ++i) {
    float v = value(row, k + i);
    low = min(low, v);
    high = max(high, v);
    if ((isnan(v) || isinf(v)) && !isnan(not_finite)) not_finite = abs(v);
  }
  if (BLOCK_LANES > 1) {
    lows[lane] = low;
    highs[lane] = high;
    unfit[lane] = not_finite;
    barrier();
    for (uint i = first; i < first + BLOCK_LANES; ++i) {
      low = min(low, lows[i]);
      high = max(high, highs[i]);
      if (unfit[i] != 0.0 && !isnan(not_finite)) not_finite = unfit[i];
    }
  }
  bool finite = not_finite == 0.0;
  precise float scale = finite ? high / 254.0 - low / 254.0 : not_finite;
  if (scale < SMALLEST_NORMAL) scale = 0.0;
  bool usable = finite && scale > 0.0;
  float inverse = usable ? 1.0 / scale : 0.0;
  int zero = usable ? clamp(int(roundEven(low * inverse)) + 127, -127, 127) : 0;
  int total = 0;
  for (uint i = 0; i < VALUES; i += 4) {
    uint packed = 0;
    for (uint j = 0; j < 4; ++j) {
      float rounded = usable ? roundEven(value(row, k + i + j) * inverse) : 0.0;
      int q = clamp(int(rounded) - zero, -127, 127);
      total += q;
      packed |= (uint(q) & 255u) << (8 * j);
    }
    if (part < PARTS) y[row * ROW_WORDS + (k + i) / 4] = packed;
  }
  if (BLOCK_LANES > 1) {
    totals[lane] = total;
    barrier();
    total = 0;
    for (uint i = first; i < first + BLOCK_LANES; ++i) total += totals[i];
  }
  if (part >= PARTS || lane != first) return;
  total += 32 * zero;
  uint scales = row * ROW_WORDS + WORDS;
  y[scales + 2 * block] = floatBitsToUint(scale);
  y[scales + 2 * block + 1] = floatBitsToUint(scale * float(total));
  y[scales + 2 * BLOCKS + block] = (uint(total) << 16) | (uint(zero) & 65535u);
}

void main() {
  uint row = gl_WorkGroupID.y, lane = gl_LocalInvocationIndex;
  if (row >= rows_in_use()) return;
#ifdef NORM
  float squares = 0.0;
  for (uint k = lane; k < K; k += LANES) squares += x[row * K + k] * x[row * K + k];
  root = root_of(workgroup_sum(squares) / float(K) + EPS);
  for (uint begin = 0; begin < PARTS; begin += LANES) pack(row, begin + lane);
#else
  pack(row, gl_WorkGroupID.x * LANES + lane);
#endif
}
