// A row of float32 values into a cache of float16, float32, or int8 and int4 with scales.
#pragma once

#include <string.h>

#include "base/simd.h"
#include "ops/rotate.h"
#include "plan/op.h"

namespace llm {
namespace LLM_ISA {

// binary32 -> binary16, nearest, ties to even
static uint16_t half_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 2^16 and beyond
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 aligns the last bit of a subnormal
    float value;
    memcpy(&value, &magnitude, sizeof value);
    value += 0.5f;
    uint32_t shifted;
    memcpy(&shifted, &value, sizeof shifted);
    return static_cast<uint16_t>(sign | (shifted - 0x3f000000u));
  }
  const uint32_t nearest_even = 0xfffu + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | (magnitude - 0x38000000u + nearest_even) >> 13);
}

static void to_half(const float* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + kWidth <= n; i += kWidth) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        _mm512_cvtps_ph((__m512)load(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__AVX2__)
  for (; i + kWidth <= n; i += kWidth) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i),
                     _mm256_cvtps_ph((__m256)load(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; ++i) y[i] = half_bits(x[i]);
}

// The float16 scale of values whose largest is `levels` of it, and 1 / scale; 0 where nothing can
// be divided by it.
static float scale_of(const float* x, int64_t n, float levels, uint16_t* scale) {
  float most = 0;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    finite = finite && magnitude <= 3.4028234e38f;
    most = magnitude > most ? magnitude : most;
  }
  *scale = finite ? half_bits(most / levels) : 0x7e00;
  const float wide = to_float(Half{*scale});
  return finite && wide > 0 && wide <= 65504.0f ? 1 / wide : 0;
}

// core/quant/rows.py defines the rounding
static void to_int8(const float* x, int64_t n, int8_t* q, uint16_t* scale) {
  const F32 inverse = broadcast(scale_of(x, n, 127.0f, scale));
  const bool usable = inverse[0] > 0;
  for (int64_t i = 0; i < n; i += kWidth) {
    const int64_t left = n - i < kWidth ? n - i : kWidth;
    F32 steps = usable ? load_part(x + i, left) * inverse : F32{};
    steps = max(broadcast(-127), F32(-max(broadcast(-127), -steps)));
    const I32 rounded = to_i32(round_nearest(steps));
    for (int64_t j = 0; j < left; ++j) q[i + j] = static_cast<int8_t>(rounded[j]);
  }
}

// core/quant/rows.py defines rotation and rounding; q: two values in a byte
static void to_int4(const float* x, int64_t n, uint8_t* q, uint16_t* scale) {
  float rotated[kMostRotated];
  memcpy(rotated, x, n * sizeof(float));
  rotate(rotated, n);
  const F32 inverse = broadcast(scale_of(rotated, n, 7.5f, scale));
  const bool usable = inverse[0] > 0;
  for (int64_t i = 0; i < n; i += kWidth) {
    const int64_t left = n - i < kWidth ? n - i : kWidth;
    F32 steps = usable ? load_part(rotated + i, left) * inverse : F32{};
    steps = min(broadcast(7.5f), max(broadcast(-8), steps));
    const I32 levels = to_i32(steps + 8.0f);
    for (int64_t j = 0; j < left; j += 2) {
      q[(i + j) / 2] = static_cast<uint8_t>(levels[j] | levels[j + 1] << 4);
    }
  }
}

static void store_row(const Tensor& from, int64_t index, const Tensor& cache, int64_t position) {
  const auto* x = row<const float>(from, index);
  if (cache.dtype == DType::kF16) {
    to_half(x, from.n_cols, row<uint16_t>(cache, position));
  } else if (cache.dtype == DType::kI8) {
    auto* q = row<int8_t>(cache, position);
    auto* scales = reinterpret_cast<uint16_t*>(q + cache.n_cols);
    for (int64_t c = 0; c < cache.n_cols; c += cache.block) {
      to_int8(x + c, cache.block, q + c, scales + c / cache.block);
    }
  } else if (cache.dtype == DType::kI4) {
    auto* q = row<uint8_t>(cache, position);
    auto* scales = reinterpret_cast<uint16_t*>(q + cache.n_cols / 2);
    for (int64_t c = 0; c < cache.n_cols; c += cache.block) {
      to_int4(x + c, cache.block, q + c / 2, scales + c / cache.block);
    }
  } else {
    memcpy(row<float>(cache, position), x, from.n_cols * sizeof(float));
  }
}

}  // namespace LLM_ISA
}  // namespace llm
