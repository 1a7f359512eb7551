// A row of float32 values into a cache of float16 or float32.
#pragma once

#include <string.h>

#include "base/simd.h"
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

static void store_row(const Tensor& from, int64_t index, const Tensor& cache, int64_t position) {
  const auto* x = row<const float>(from, index);
  if (cache.dtype == DType::kF16) {
    to_half(x, from.n_cols, row<uint16_t>(cache, position));
  } else {
    memcpy(row<float>(cache, position), x, from.n_cols * sizeof(float));
  }
}

}  // namespace LLM_ISA
}  // namespace llm
