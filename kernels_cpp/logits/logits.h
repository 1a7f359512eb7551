// What choosing a token asks of a row of logits, without sorting it.
#pragma once

#include <cstdint>

namespace llm {

constexpr int64_t kLogitBlock = 128;  // values that share a maximum

struct LogitKernels {
  // The largest of n values and the sum of e^(x - largest); the sum is NaN where a value is.
  void (*sum_exp)(const float* values, int64_t n, float* largest, double* sum);
  // [ceil(n / kLogitBlock)], of each block
  void (*maxima)(const float* values, int64_t n, float* maxima);
  // out[i] = values[i] where bit i % 32 of bits[i / 32] is set, else -inf
  void (*keep_allowed)(const float* values, int64_t n, const uint32_t* bits, float* out);
};

// Indices of the `count` <= n largest values, falling; of equal ones the first comes first. Without
// NaN.
void largest(const LogitKernels& kernels, const float* values, int64_t n, int64_t count,
             int64_t* indices);

}  // namespace llm
