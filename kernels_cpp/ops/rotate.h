// Heads of a cache of int4 are rotated by Hadamard matrices, which core/quant/rows.py
// defines.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

// Values that are rotated together: the largest power of two that divides d
inline int64_t rotated_together(int64_t d) { return d & -d; }

// Sums and differences of lanes kBit apart
template <int kBit, int... i>
inline F32 add_lanes(F32 x, std::integer_sequence<int, i...>) {
  const I32 sign = {((i & kBit) ? INT32_MIN : 0)...};
  return shuffle<(i ^ kBit)...>(x, x) + from_bits(bits_of(x) ^ (U32)sign);
}

template <int kBit = 1>
inline F32 rotate_lanes(F32 x, int64_t n) {
  if constexpr (kBit < kWidth) {
    if (kBit >= n) return x;
    return rotate_lanes<2 * kBit>(add_lanes<kBit>(x, std::make_integer_sequence<int, kWidth>()), n);
  }
  return x;
}

// Of values that are no whole vectors
inline void rotate_few(float* x, int64_t d, int64_t n) {
  for (int64_t apart = 1; apart < n; apart *= 2) {
    for (int64_t i = 0; i < d; ++i) {
      if (i & apart) continue;
      const float a = x[i], b = x[i + apart];
      x[i] = a + b;
      x[i + apart] = a - b;
    }
  }
}

// x[d] -> H x, in the order of additions that the definition has
inline void rotate(float* x, int64_t d) {
  const int64_t n = rotated_together(d);
  if (d % kWidth != 0) return rotate_few(x, d, n);
  for (int64_t i = 0; i < d; i += kWidth) store(x + i, rotate_lanes(load(x + i), n));
  for (int64_t apart = kWidth; apart < n; apart *= 2) {
    for (int64_t i = 0; i < d; i += kWidth) {
      if (i & apart) continue;
      const F32 a = load(x + i), b = load(x + i + apart);
      store(x + i, a + b);
      store(x + i + apart, a - b);
    }
  }
}

// x[d] -> H x / n, which H undoes
inline void rotate_back(float* x, int64_t d) {
  rotate(x, d);
  const float share = 1.0f / static_cast<float>(rotated_together(d));
  for (int64_t i = 0; i < d; ++i) x[i] *= share;
}

}  // namespace LLM_ISA
}  // namespace llm
