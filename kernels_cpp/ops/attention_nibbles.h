// Scores of int4 keys by products of bytes. Queries are digits (ops/digits.h), so that the sums are
// those of floats, and no level becomes a float by itself.
//
// A lane is a key: four levels of it meet the same columns of a query, which all lanes get. So keys
// are transposed, rows into lanes, and no sum goes over lanes.
#pragma once

#include "ops/attention_cache.h"
#include "ops/digits.h"

namespace llm {
namespace LLM_ISA {

constexpr int kTransposedWords = 8;  // of each key, that become lanes at once
constexpr int64_t kTransposedColumns = 8 * kTransposedWords;

// Whether scores of rows of d columns are taken so: narrower vectors have no registers for the
// sums, which have 32 bits.
template <typename K>
constexpr bool kMayTranspose = std::is_same<K, Nibbles>::value && kHasByteDot && kWidth == 16;
constexpr int64_t kMostTransposed = 4096;  // columns
template <typename K>
inline bool transposes(int64_t d) {
  return kMayTranspose<K> && d % kTransposedColumns == 0 && d <= kMostTransposed;
}

// A query's columns as digits [kDigits][d]. Those of a word of nibbles go in the order of its
// levels, 0 2 4 6 before 1 3 5 7. A level u stands for u - 8 + 1/2.
inline DigitRow split_query(const float* q, int64_t d, int8_t* digits) {
  DigitRow row = {digits, digit_step(q, d), 0, {}};
  for (int64_t c = 0; c < d; c += kDigitBlock) {
    float ordered[kDigitBlock];
    for (int i = 0; i < kDigitBlock; ++i) ordered[i / 8 * 8 + i % 2 * 4 + i % 8 / 2] = q[c + i];
    split_digits(ordered, row.step, digits + c, d);
  }
  float power = 1;
  for (int k = 0; k < kDigits; ++k, power *= 256) {
    int32_t total = 0;
    for (int64_t c = 0; c < d; ++c) total += digits[k * d + c];
    row.begin[k] = -8 * total;
    row.rest += 0.5f * power * static_cast<float>(total);
  }
  return row;
}

// words[w][set]: in lane j word w of row i + j; rows behind the n that there are repeat the last
template <int kSets>
inline void transpose_rows(const HeadRows<Nibbles>& rows, int64_t i, int64_t n, int64_t c, int set,
                           I32 (&words)[kTransposedWords][kSets]) {
#if defined(__AVX512F__)
  const auto bytes = [&](int64_t j) {
    const Nibbles* row = rows.at(i + j < n ? i + j : n - 1, c);
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
  };
  F32 halves[kTransposedWords];  // of rows j and j + 8
  for (int j = 0; j < kTransposedWords; ++j) {
    halves[j] = (F32)_mm512_inserti64x4(_mm512_castsi256_si512(bytes(j)), bytes(j + 8), 1);
  }
  transpose(halves);
  for (int j = 0; j < kTransposedWords; ++j) words[j][set] = (I32)halves[j];
#endif
}

// sums[set][r][k] += words of some keys . digits k of query r, of d columns, from `columns` on
template <int kSets, int kRows>
inline void add_transposed(const Query* queries, const I32 (&words)[kSets], int64_t d,
                           int64_t columns, I32 (&sums)[kSets][kRows][kDigits]) {
  for (int half = 0; half < 2; ++half) {
    I32 levels[kSets];
    for (int s = 0; s < kSets; ++s) levels[s] = (words[s] >> 4 * half) & 0x0f0f0f0f;
    for (int r = 0; r < kRows; ++r) {
      for (int k = 0; k < kDigits; ++k) {
        const int8_t* four = queries[r].digits.at + k * d + columns + 4 * half;
        if constexpr (kSets == 1) {
          sums[0][r][k] = add_products_at<Levels::kNibbles>(sums[0][r][k], levels[0], four);
        } else {
          int32_t word;  // which the sets share
          std::memcpy(&word, four, sizeof word);
          for (int s = 0; s < kSets; ++s) {
            sums[s][r][k] = add_products<Levels::kNibbles>(sums[s][r][k], levels[s], word);
          }
        }
      }
    }
  }
}

// scores[r][i] = q[r] . key[i]
template <int kRows>
__attribute__((noinline)) void score_transposed(const Query* queries, const HeadRows<Nibbles>& keys,
                                                int64_t n, int64_t d, Stream& ahead,
                                                float* scores) {
  constexpr int kSets = kRows <= 3 ? 2 : 1;  // of kWidth keys, as many as fit registers
  for (int64_t i = 0; i < n; i += kSets * kWidth) {
    I32 sums[kSets][kRows][kDigits];
    for (int s = 0; s < kSets; ++s) {
      for (int r = 0; r < kRows; ++r) {
        for (int k = 0; k < kDigits; ++k) sums[s][r][k] = spread(queries[r].digits.begin[k]);
      }
    }
    Stream asked = ahead;
    for (int64_t c = 0; c < d; c += kTransposedColumns) {
      I32 words[kTransposedWords][kSets];
      for (int s = 0; s < kSets; ++s) transpose_rows(keys, i + s * kWidth, n, c, s, words);
#pragma GCC unroll 1
      for (int w = 0; w < kTransposedWords; ++w) {
        if (c == 0) asked.ask(kSets * kWidth / kTransposedWords);
        add_transposed<kSets, kRows>(queries, words[w], d, c + 8 * w, sums);
      }
    }
    ahead.skip(n - i < kSets * kWidth ? n - i : kSets * kWidth);
    for (int s = 0; s < kSets; ++s) {
      const int64_t first = i + s * kWidth;
      const F32 scales = keys.scales(first, n - first);
      for (int r = 0; r < kRows; ++r) {
        const F32 products = joined(queries[r].digits, sums[s][r]);
        store(scores + r * kPositions + first, products * scales);
      }
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
