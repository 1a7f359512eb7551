#include "logits/kernels.h"

#include <cmath>
#include <limits>

#include "base/exp.h"

namespace llm {
namespace LLM_ISA {

static float block_maximum(const float* values, int64_t n) {
  if (n < kWidth) {
    float most = values[0];
    for (int64_t i = 1; i < n; ++i) most = values[i] > most ? values[i] : most;
    return most;
  }
  F32 most = load(values + n - kWidth);  // covers what does not fill a register
  for (int64_t i = 0; i + kWidth <= n; i += kWidth) most = max(most, load(values + i));
  return largest(most);
}

static int64_t block_size(int64_t n, int64_t begin) {
  return n - begin < kLogitBlock ? n - begin : kLogitBlock;
}

static void maxima(const float* values, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += kLogitBlock) *out++ = block_maximum(values + i, block_size(n, i));
}

static float block_sum_exp(const float* values, int64_t n, float most) {
  F32 total = {};
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) total += exp(load(values + i) - most);
  float rest = 0;
  for (; i < n; ++i) rest += std::exp(values[i] - most);
  return sum(total) + rest;
}

static void sum_exp(const float* values, int64_t n, float* most, double* total) {
  *most = values[0];
  for (int64_t i = 0; i < n; i += kLogitBlock) {
    const float of_block = block_maximum(values + i, block_size(n, i));
    *most = of_block > *most ? of_block : *most;
  }
  *total = 0;
  for (int64_t i = 0; i < n; i += kLogitBlock) {
    *total += block_sum_exp(values + i, block_size(n, i), *most);
  }
}

static void keep_allowed(const float* values, int64_t n, const uint32_t* bits, float* out) {
  constexpr float kImpossible = -std::numeric_limits<float>::infinity();
  I32 lane_bits;
  for (int i = 0; i < kWidth; ++i) lane_bits[i] = 1 << i;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const auto some = static_cast<int32_t>(bits[i / 32] >> (i % 32));
    const I32 allowed = (I32)((lane_bits & some) != 0);
    store(out + i, choose(allowed, load(values + i), broadcast(kImpossible)));
  }
  for (; i < n; ++i) out[i] = bits[i / 32] >> (i % 32) & 1 ? values[i] : kImpossible;
}

const LogitKernels kLogits = {sum_exp, maxima, keep_allowed};

}  // namespace LLM_ISA
}  // namespace llm
