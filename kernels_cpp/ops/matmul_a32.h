// Matrix products of few tokens in float32 with weights that lie in rows.
#pragma once

#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

// One row of weights times one row of activations, n values each.
template <typename Format>
inline float row_times(const uint8_t* weights, const float* x, int64_t n) {
  typedef typename Format::Value Value;
  constexpr int kStep = 4 * kWidth;
  const auto* values = reinterpret_cast<const Value*>(weights);
  F32 totals[4] = {};
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (size_t line = 0; line < kStep * sizeof(Value); line += 64) {
      __builtin_prefetch(reinterpret_cast<const uint8_t*>(values + i) + kPrefetchBytes + line);
    }
    for (int j = 0; j < 4; ++j) {
      totals[j] += load(values + i + j * kWidth) * load(x + i + j * kWidth);
    }
  }
  F32 total = (totals[0] + totals[1]) + (totals[2] + totals[3]);
  if (i < n) total += dot_lanes(values + i, x + i, n - i);
  return sum(total);
}

// Few tokens: the weights as they lie there, a row at a time.
template <typename Format>
inline void matmul_by_rows(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t tokens,
                           Range rows) {
  const int64_t n = x.n_cols, stride = row_bytes(weight);
  for (int64_t t = 0; t < tokens; ++t) {
    const auto* values = row<const float>(x, t);
    auto* out = row<float>(y, t);
    const uint8_t* from = weight.data + rows.begin * stride;
    for (int64_t i = rows.begin; i < rows.end; ++i, from += stride) {
      out[i] = row_times<Format>(from, values, n);
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
