// Matrix products of few tokens in float32 with weights that lie in rows.
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

}  // namespace LLM_ISA
}  // namespace llm
