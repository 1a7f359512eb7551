// Matrix products with float32 activations.
#pragma once

#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

// One row of weights times one row of activations, n values each.
template <typename Value>
struct FloatRow {
  static float times(const uint8_t* weights, const float* x, const float*, int64_t n) {
    return dot(reinterpret_cast<const Value*>(weights), x, n);
  }
};

// x_sums [n / 32] are the sums of x over blocks: they multiply the blocks' minima.
template <typename Format>
struct BlockRow {
  static float times(const uint8_t* weights, const float* x, const float* x_sums, int64_t n) {
    F32 total = {};
    float minima = 0;
    for (int64_t b = 0; b < n / 32; ++b, weights += Format::kBytes, x += 32) {
      F32 levels[32 / kWidth];
      Format::floats(weights, levels);
      F32 products = levels[0] * load(x);
      for (int j = 1; j < 32 / kWidth; ++j) products += levels[j] * load(x + j * kWidth);
      const Scale scale = Format::scale(weights);
      total += products * scale.d;
      if constexpr (Format::kHasMinimum) minima += scale.m * x_sums[b];
    }
    return sum(total) + minima;
  }
};

inline void sum_blocks(const float* x, int64_t n, float* sums) {
  for (int64_t b = 0; b < n / 32; ++b) {
    F32 total = {};
    for (int j = 0; j < 32; j += kWidth) total += load(x + b * 32 + j);
    sums[b] = sum(total);
  }
}

// Few tokens: the weights as they lie there, a row at a time; scratch: float [K / 32].
template <typename Row>
inline void matmul_by_rows(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t tokens,
                           Range rows, float* scratch) {
  const int64_t n = x.n_cols, stride = row_bytes(weight.dtype, n);
  for (int64_t t = 0; t < tokens; ++t) {
    const auto* values = row<const float>(x, t);
    sum_blocks(values, n, scratch);
    auto* out = row<float>(y, t);
    const uint8_t* from = weight.data + rows.begin * stride;
    for (int64_t i = rows.begin; i < rows.end; ++i, from += stride) {
      out[i] = Row::times(from, values, scratch, n);
    }
  }
}

constexpr int kPanelRows = 4;
constexpr int kPanelTokens = kWidth == 16 ? 6 : 2;  // as many accumulators as registers allow

// panel [kPanelRows][stride] times kTokens rows of x -> y
template <int kTokens>
inline void panel_times(const float* panel, int64_t stride, const Tensor& x, int64_t token,
                        float (&out)[kTokens][kPanelRows]) {
  const float* rows[kTokens];
  for (int t = 0; t < kTokens; ++t) rows[t] = row<const float>(x, token + t);
  F32 totals[kTokens][kPanelRows] = {};
  int64_t i = 0;
  const auto step = [&](const auto& values_at) {
    F32 weights[kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) weights[r] = load(panel + r * stride + i);
    for (int t = 0; t < kTokens; ++t) {
      const F32 values = values_at(rows[t] + i);
      for (int r = 0; r < kPanelRows; ++r) totals[t][r] += weights[r] * values;
    }
  };
  for (; i + kWidth <= x.n_cols; i += kWidth) step([](const float* p) { return load(p); });
  if (const int64_t left = x.n_cols - i; left > 0) {
    step([left](const float* p) { return load_part(p, left); });
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int r = 0; r < kPanelRows; ++r) out[t][r] = sum(totals[t][r]);
  }
}

template <int kTokens>
inline void panel_tile(const float* panel, int64_t stride, const Tensor& x, int64_t token,
                       const Tensor& y, int64_t first, int64_t count) {
  float out[kTokens][kPanelRows];
  panel_times<kTokens>(panel, stride, x, token, out);
  for (int t = 0; t < kTokens; ++t) {
    std::memcpy(row<float>(y, token + t) + first, out[t], count * sizeof(float));
  }
}

inline int64_t panel_stride(int64_t n) { return (n + kWidth - 1) / kWidth * kWidth; }

// Many tokens: rows of weights become float32 once, in a panel that stays in the cache, and meet
// all tokens; scratch: float [kPanelRows][panel_stride(K)].
inline void matmul_by_panels(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t tokens,
                             Range rows, float* panel) {
  const int64_t stride = panel_stride(x.n_cols);
  std::memset(panel, 0, kPanelRows * stride * sizeof(float));
  for (int64_t first = rows.begin; first < rows.end; first += kPanelRows) {
    const int64_t left = rows.end - first, count = left < kPanelRows ? left : kPanelRows;
    for (int64_t r = 0; r < count; ++r) {
      const auto* from = row<const uint8_t>(weight, first + r);
      dequantize_row(weight.dtype, from, x.n_cols, panel + r * stride);
    }
    int64_t t = 0;
    for (; t + kPanelTokens <= tokens; t += kPanelTokens) {
      panel_tile<kPanelTokens>(panel, stride, x, t, y, first, count);
    }
    for (; t < tokens; ++t) panel_tile<1>(panel, stride, x, t, y, first, count);
  }
}

}  // namespace LLM_ISA
}  // namespace llm
