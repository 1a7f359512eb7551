// Matrix products of some tokens in float32 with weights that lie in rows: a tile of rows and
// tokens at a time, whose sums run along the columns of both and end as the lanes of one vector.
#pragma once

#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

constexpr int kDotRows = 4;
constexpr int kDotTokens = kWidth / kDotRows;  // kWidth sums in all

constexpr int64_t kDotsAhead = 2 * kFarBytes;  // rows are short: some of them ahead

// Lane kDotRows * t + r: weights[r] . x[t], of n columns. kAsk: for weights behind these
template <bool kAsk, typename Value>
inline F32 tile_of_dots(const Value* const (&weights)[kDotRows],
                        const float* const (&x)[kDotTokens], int64_t n) {
  F32 totals[kWidth] = {};  // [token][row]
  const auto add = [&](const F32(&w)[kDotRows], const F32(&values)[kDotTokens]) {
    for (int t = 0; t < kDotTokens; ++t) {
      for (int r = 0; r < kDotRows; ++r) totals[t * kDotRows + r] += w[r] * values[t];
    }
  };
  F32 w[kDotRows], values[kDotTokens];
  int64_t k = 0;
  for (; k + kWidth <= n; k += kWidth) {
    for (int r = 0; r < kDotRows; ++r) {
      w[r] = load(weights[r] + k);
      if (kAsk) {
        const auto* at = reinterpret_cast<const uint8_t*>(weights[r] + k);
        __builtin_prefetch(at + kDotsAhead, 0, 2);
      }
    }
    for (int t = 0; t < kDotTokens; ++t) values[t] = load(x[t] + k);
    add(w, values);
  }
  if (k < n) {
    for (int r = 0; r < kDotRows; ++r) w[r] = load_part(weights[r] + k, n - k);
    for (int t = 0; t < kDotTokens; ++t) values[t] = load_part(x[t] + k, n - k);
    add(w, values);
  }
  return sum_each(totals);
}

// Some rows of weights meet all tokens before the next are read. At the end of rows and tokens the
// last stands for those that are missing, whose sums are not stored.
template <typename Format>
inline void matmul_by_dots(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t tokens,
                           Range rows) {
  typedef typename Format::Value Value;
  const int64_t n = x.n_cols;
  for (int64_t first = rows.begin; first < rows.end; first += kDotRows) {
    const int64_t row_count = rows.end - first < kDotRows ? rows.end - first : kDotRows;
    const Value* weights[kDotRows];
    for (int64_t r = 0; r < kDotRows; ++r) {
      weights[r] = row<const Value>(weight, first + (r < row_count ? r : row_count - 1));
    }
    for (int64_t token = 0; token < tokens; token += kDotTokens) {
      const int64_t count = tokens - token < kDotTokens ? tokens - token : kDotTokens;
      const float* values[kDotTokens];
      for (int64_t t = 0; t < kDotTokens; ++t) {
        values[t] = row<const float>(x, token + (t < count ? t : count - 1));
      }
      float lanes[kWidth];
      store(lanes, token == 0 ? tile_of_dots<true>(weights, values, n)
                              : tile_of_dots<false>(weights, values, n));
      for (int64_t t = 0; t < count; ++t) {
        std::memcpy(row<float>(y, token + t) + first, lanes + t * kDotRows,
                    row_count * sizeof(float));
      }
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
