// Matrix products of few tokens in float32 with weights that lie in rows.
#pragma once

#include "ops/groups.h"
#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

constexpr int kRowTokens = kWidth == 8 ? 2 : 4;  // as many sums as there are registers for

// y[token..][i] = one row of weights times activations, n values each: a token gets the same bits
// beside others.
template <typename Format, int kTokens>
inline void row_times(const uint8_t* weights, const Tensor& x, int64_t token, int64_t n,
                      const Tensor& y, int64_t i) {
  typedef typename Format::Value Value;
  constexpr int kStep = 4 * kWidth;
  const auto* values = reinterpret_cast<const Value*>(weights);
  const float* from[kTokens];
  for (int t = 0; t < kTokens; ++t) from[t] = row<const float>(x, token + t);
  F32 totals[kTokens][4] = {};
  int64_t k = 0;
  for (; k + kStep <= n; k += kStep) {
    for (size_t line = 0; line < kStep * sizeof(Value); line += 64) {
      __builtin_prefetch(reinterpret_cast<const uint8_t*>(values + k) + kPrefetchBytes + line);
    }
    for (int j = 0; j < 4; ++j) {
      const F32 own = load(values + k + j * kWidth);
      for (int t = 0; t < kTokens; ++t) totals[t][j] += own * load(from[t] + k + j * kWidth);
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    F32 total = (totals[t][0] + totals[t][1]) + (totals[t][2] + totals[t][3]);
    if (k < n) total += dot_lanes(values + k, from[t] + k, n - k);
    row<float>(y, token + t)[i] = sum(total);
  }
}

// Few tokens: the weights as they lie there, a row at a time, which meets all tokens.
template <typename Format>
inline void matmul_by_rows(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t tokens,
                           Range rows) {
  const int64_t stride = row_bytes(weight);
  const uint8_t* from = weight.data + rows.begin * stride;
  for (int64_t i = rows.begin; i < rows.end; ++i, from += stride) {
    in_groups<kRowTokens>(tokens, [&](int64_t token, auto group) {
      row_times<Format, group()>(from, x, token, x.n_cols, y, i);
    });
  }
}

}  // namespace LLM_ISA
}  // namespace llm
