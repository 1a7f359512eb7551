// Sums over rows, in vectors: one by one float32 would lose digits over thousands of values.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

inline float total(const float* x, int64_t n) {
  F32 sums = {};
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) sums += load(x + i);
  if (i < n) sums += load_part(x + i, n - i);
  return sum(sums);
}

// Of all (x - mean)^2
inline float squared_distance(const float* x, float mean, int64_t n) {
  F32 sums = {};
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) sums += (load(x + i) - mean) * (load(x + i) - mean);
  float rest = 0;
  for (; i < n; ++i) rest += (x[i] - mean) * (x[i] - mean);
  return sum(sums) + rest;
}

}  // namespace LLM_ISA
}  // namespace llm
