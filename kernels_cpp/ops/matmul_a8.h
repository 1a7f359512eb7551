// Matrix products of few tokens in int8 with quantized weights that lie in rows.
//
// A block contributes d * scale * (levels . (int8 + zero)) + m * sum, see Scale and A8Row.
#pragma once

#include "quant/a8.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q8_0.h"

namespace llm {
namespace LLM_ISA {

template <typename Format>
inline Sums dot_block(const uint8_t* weights, const A8Row& x, int64_t b) {
  const Bytes32 levels = Format::levels(weights), values = load_bytes(x.values + kA8Block * b);
  if constexpr (Format::kSigned) return dot_signed(levels, values, x.offsets[b].zero);
  return dot_unsigned(levels, values, x.offsets[b].zero);
}

// One row of weights times one row of activations of n values.
template <typename Format>
inline float row_times_a8(const uint8_t* weights, const A8Row& x, int64_t n) {
  const int64_t blocks = n / 32;
  int64_t b = 0;
  float result = 0;
#if defined(__AVX512F__)
  if constexpr (!Format::kSigned) {  // two blocks a register
    const __m512i spread = _mm512_set_epi32(2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i first_bytes = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi8(4), 1);
    __m512 products = _mm512_setzero_ps();
    __m128 minima = _mm_setzero_ps();
    for (; b + 2 <= blocks; b += 2, weights += 2 * Format::kBytes) {
      __builtin_prefetch(weights + kPrefetchBytes);
      const __m512i levels = Format::levels_of_two(weights);
      int64_t offsets;
      std::memcpy(&offsets, x.offsets + b, sizeof offsets);
      const __m512i zeros = _mm512_shuffle_epi8(_mm512_set1_epi64(offsets), first_bytes);
      const __m512i dots = dot_unsigned(levels, _mm512_loadu_si512(x.values + 32 * b), zeros);
      // d * scale, m * sum, d * scale, m * sum
      const __m128 both = _mm_loadu_ps(&x.scales[b].scale);
      const __m128 factors = _mm_mul_ps(Format::scales_of_two(weights), both);
      const __m512 scale = _mm512_permutexvar_ps(spread, _mm512_castps128_ps512(factors));
      products = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, products);
      minima = _mm_add_ps(minima, factors);
    }
    const __m128 odd = _mm_movehdup_ps(minima);
    result =
        _mm512_reduce_add_ps(products) + _mm_cvtss_f32(_mm_add_ss(odd, _mm_movehl_ps(odd, odd)));
  }
#endif
  FloatSums products = zero_sums();
  for (; b < blocks; ++b, weights += Format::kBytes) {
    __builtin_prefetch(weights + kPrefetchBytes);
    const Scale scale = Format::scale(weights);
    products = add_scaled(dot_block<Format>(weights, x, b), scale.d * x.scales[b].scale, products);
    result += scale.m * x.scales[b].sum;
  }
  return result + total(products);
}

template <typename Format>
inline void matmul_a8_by_rows(const Tensor& x, const Tensor& weight, const Tensor& y,
                              int64_t tokens, Range rows) {
  const int64_t stride = row_bytes(weight.dtype, weight.n_cols);
  for (int64_t t = 0; t < tokens; ++t) {
    const A8Row values = a8_row(x, t);
    auto* out = row<float>(y, t);
    const uint8_t* from = weight.data + rows.begin * stride;
    for (int64_t i = rows.begin; i < rows.end; ++i, from += stride) {
      out[i] = row_times_a8<Format>(from, values, x.n_cols);
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
