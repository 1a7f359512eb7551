// Matrix products of quantized weights with int8 activations.
//
// A block contributes d * scale * (levels . int8) + m * sum, see Scale and A8Row.
#pragma once

#include "quant/a8.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q8_0.h"

namespace llm {
namespace LLM_ISA {

template <typename Format>
inline Sums dot_block(const Bytes32& levels, const Bytes32& x) {
  if constexpr (Format::kSigned) return dot_signed(levels, x);
  return dot_unsigned(levels, x);
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
    __m512 products = _mm512_setzero_ps();
    __m128 minima = _mm_setzero_ps();
    for (; b + 2 <= blocks; b += 2, weights += 2 * Format::kBytes) {
      const __m512i levels = Format::levels_of_two(weights);
      const __m512i dots = dot_unsigned(levels, _mm512_loadu_si512(x.values + 32 * b));
      const auto* scales = reinterpret_cast<const __m64*>(x.scales + b);
      const auto* sums = reinterpret_cast<const __m64*>(x.sums + b);
      const __m128 both = _mm_unpacklo_ps(_mm_loadl_pi(_mm_setzero_ps(), scales),
                                          _mm_loadl_pi(_mm_setzero_ps(), sums));
      // d * scale, m * sum, d * scale, m * sum
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
    const Scale scale = Format::scale(weights);
    const Sums dots = dot_block<Format>(Format::levels(weights), load_bytes(x.values + 32 * b));
    products = add_scaled(dots, scale.d * x.scales[b], products);
    result += scale.m * x.sums[b];
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

// Many tokens. kWidth rows of weights lie side by side in a panel, a row a lane, so that products
// need no sums across lanes: a 32-bit word of a lane holds the next kWordLevels levels of its row.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(__ARM_FEATURE_DOTPROD)
constexpr int kWordLevels = 4;
typedef int8_t PanelLevel;
typedef int8_t PanelX;
#else
constexpr int kWordLevels = 2;  // pairs of int16
typedef int16_t PanelLevel;
typedef int16_t PanelX;
#endif
constexpr int kBlockWords = 32 / kWordLevels;

// sums + the products of each lane's levels with the word of activations
inline I32 add_products(I32 sums, I32 levels, int32_t word) {
#if defined(__AVX512VNNI__)
  return (I32)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)levels, _mm512_set1_epi32(word));
#elif defined(__AVXVNNI__)
  return (I32)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)levels, _mm256_set1_epi32(word));
#elif defined(__AVX512F__)
  return sums + (I32)_mm512_madd_epi16((__m512i)levels, _mm512_set1_epi32(word));
#elif defined(__AVX2__)
  return sums + (I32)_mm256_madd_epi16((__m256i)levels, _mm256_set1_epi32(word));
#elif defined(__SSE2__)
  return sums + (I32)_mm_madd_epi16((__m128i)levels, _mm_set1_epi32(word));
#elif defined(__ARM_FEATURE_DOTPROD)
  return (I32)vdotq_s32((int32x4_t)sums, (int8x16_t)levels,
                        vreinterpretq_s8_s32(vdupq_n_s32(word)));
#else
  const I32 low = (levels << 16) >> 16, high = levels >> 16;
  return sums + low * static_cast<int16_t>(word) + high * (word >> 16);
#endif
}

struct Panel {
  I32* words;  // [K / 32][kBlockWords]
  F32* d;      // [K / 32]
  F32* m;      // [K / 32]
};

inline size_t panel_bytes(int64_t n) {
  return n / 32 * (kBlockWords * sizeof(I32) + 2 * sizeof(F32));
}

inline Panel panel_at(uint8_t* memory, int64_t n) {
  auto* words = reinterpret_cast<I32*>(memory);
  auto* d = reinterpret_cast<F32*>(words + n / 32 * kBlockWords);
  return {words, d, d + n / 32};
}

template <typename Format>
inline void fill_panel(const uint8_t* weights, int64_t n, int lane, const Panel& panel) {
  auto* words = reinterpret_cast<int32_t*>(panel.words) + lane;
  auto* d = reinterpret_cast<float*>(panel.d) + lane;
  auto* m = reinterpret_cast<float*>(panel.m) + lane;
  for (int64_t b = 0; b < n / 32; ++b, weights += Format::kBytes) {
    uint8_t levels[32];
    store_bytes(levels, Format::levels(weights));
    PanelLevel wide[32];
    for (int i = 0; i < 32; ++i) {
      wide[i] = static_cast<PanelLevel>(Format::kSigned ? static_cast<int8_t>(levels[i])
                                                        : static_cast<int16_t>(levels[i]));
    }
    for (int i = 0; i < kBlockWords; ++i, words += kWidth) {
      std::memcpy(words, wide + i * kWordLevels, sizeof(int32_t));
    }
    const Scale scale = Format::scale(weights);
    d[b * kWidth] = scale.d;
    m[b * kWidth] = scale.m;
  }
}

inline I32 block_products(const I32* levels, const int8_t* x) {
  PanelX wide[32];
  for (int i = 0; i < 32; ++i) wide[i] = x[i];
  I32 sums = {};
  for (int i = 0; i < kBlockWords; ++i) {
    int32_t word;
    std::memcpy(&word, wide + i * kWordLevels, sizeof word);
    sums = add_products(sums, levels[i], word);
  }
  return sums;
}

constexpr int kTileTokens = 4;

template <int kTokens>
inline void panel_times_a8(const Panel& panel, const Tensor& x, int64_t token,
                           F32 (&totals)[kTokens]) {
  A8Row rows[kTokens];
  for (int t = 0; t < kTokens; ++t) {
    rows[t] = a8_row(x, token + t);
    totals[t] = F32{};
  }
  for (int64_t b = 0; b < x.n_cols / 32; ++b) {
    const I32* levels = panel.words + b * kBlockWords;
    for (int t = 0; t < kTokens; ++t) {
      const F32 products = to_f32(block_products(levels, rows[t].values + 32 * b));
      totals[t] += products * (panel.d[b] * rows[t].scales[b]);
      totals[t] += panel.m[b] * rows[t].sums[b];
    }
  }
}

template <int kTokens>
inline void panel_tile_a8(const Panel& panel, const Tensor& x, int64_t token, const Tensor& y,
                          int64_t first, int64_t count) {
  F32 totals[kTokens];
  panel_times_a8<kTokens>(panel, x, token, totals);
  for (int t = 0; t < kTokens; ++t) {
    store_part(row<float>(y, token + t) + first, totals[t], count);
  }
}

template <typename Format>
inline void matmul_a8_by_panels(const Tensor& x, const Tensor& weight, const Tensor& y,
                                int64_t tokens, Range rows, uint8_t* scratch) {
  const Panel panel = panel_at(scratch, x.n_cols);
  std::memset(scratch, 0, panel_bytes(x.n_cols));
  for (int64_t first = rows.begin; first < rows.end; first += kWidth) {
    const int64_t left = rows.end - first, count = left < kWidth ? left : kWidth;
    for (int r = 0; r < count; ++r) {
      fill_panel<Format>(row<const uint8_t>(weight, first + r), x.n_cols, r, panel);
    }
    int64_t t = 0;
    for (; t + kTileTokens <= tokens; t += kTileTokens) {
      panel_tile_a8<kTileTokens>(panel, x, t, y, first, count);
    }
    for (; t < tokens; ++t) panel_tile_a8<1>(panel, x, t, y, first, count);
  }
}

}  // namespace LLM_ISA
}  // namespace llm
