// Matrix products of few tokens in float32 with weights that lie in rows.
#pragma once

#include "ops/groups.h"
#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

constexpr int kRowTokens = kWidth == 8 ? 3 : 4;  // four sums of each: all but a few registers
constexpr int64_t kRowsOfPass = 16;              // that all groups of tokens meet before the next

// One row of weights times some of activations, n values each: a token gets the same bits beside
// others.
template <typename Format, int kTokens>
inline void row_times(const uint8_t* weights, const float* const (&x)[kTokens], int64_t n,
                      float* const (&y)[kTokens], int64_t i) {
  typedef typename Format::Value Value;
  constexpr int kStep = 4 * kWidth;
  const auto* values = reinterpret_cast<const Value*>(weights);
  F32 totals[kTokens][4] = {};
  int64_t k = 0;
  for (; k + kStep <= n; k += kStep) {
    ask_ahead(values + k, kStep * sizeof(Value));
    for (int j = 0; j < 4; ++j) {
      const F32 own = load(values + k + j * kWidth);
      for (int t = 0; t < kTokens; ++t) totals[t][j] += own * load(x[t] + k + j * kWidth);
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    F32 total = (totals[t][0] + totals[t][1]) + (totals[t][2] + totals[t][3]);
    if (k < n) total += dot_lanes(values + k, x[t] + k, n - k);
    y[t][i] = sum(total);
  }
}

// Few tokens: the weights as they lie there, a row at a time.
template <typename Format>
inline void matmul_by_rows(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t tokens,
                           Range rows) {
  const int64_t n = x.n_cols, stride = row_bytes(weight);
  const int64_t size = tokens > kRowTokens ? kRowsOfPass : rows.end - rows.begin;
  for (int64_t first = rows.begin; first < rows.end; first += size) {
    const int64_t end = rows.end - first < size ? rows.end : first + size;
    in_groups<kRowTokens>(tokens, [&](int64_t token, auto group) {
      const float* from[group()];
      float* to[group()];
      for (int t = 0; t < group(); ++t) {
        from[t] = row<const float>(x, token + t);
        to[t] = row<float>(y, token + t);
      }
      const uint8_t* weights = weight.data + first * stride;
      for (int64_t i = first; i < end; ++i, weights += stride) {
        row_times<Format, group()>(weights, from, n, to, i);
      }
    });
  }
}

}  // namespace LLM_ISA
}  // namespace llm
