// Scores of a block of keys and many queries, a query a lane, with the bits that attention_rows.h
// gives: there a lane has every kWidth-th column of a key, and the sums of the lanes are added in
// pairs.
#pragma once

#include "ops/attention_block_memory.h"
#include "ops/attention_nibbles.h"

namespace llm {
namespace LLM_ISA {

constexpr int kScoredKeys = kWidth > 8 ? 4 : 2;  // two lanes of so many fit registers
constexpr int kScoredGroups = 2;  // of so many keys, which share columns of queries in the cache
constexpr int kLevels = kWidth == 16 ? 3 : kWidth == 8 ? 2 : 1;  // at which pairs of lanes wait

// scores[r][v] (+)= column c of key r times that of the queries
template <bool kFirst, int kVectors>
inline void add_column(const float* keys, int64_t d, const float* queries, int64_t c,
                       F32 (&scores)[kScoredKeys][kVectors]) {
  F32 q[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    q[v] = in_register(load(queries + c * kMaxQueries + v * kWidth));
  }
  for (int r = 0; r < kScoredKeys; ++r) {
    const F32 key = broadcast(keys[r * d + c]);
    for (int v = 0; v < kVectors; ++v) {
      scores[r][v] = kFirst ? q[v] * key : scores[r][v] + q[v] * key;
    }
  }
}

// Of the columns that the lanes `lane` and `lane` + 1 of a key's vectors have. kWhole: d is a
// multiple of kWidth; without branches for other widths compilers keep all sums in registers.
template <bool kWhole, int kVectors>
__attribute__((always_inline)) inline void score_two_lanes(const float* keys, int64_t d,
                                                           const float* queries, int64_t lane,
                                                           F32 (&scores)[kScoredKeys][kVectors]) {
  if constexpr (!kWhole) {
    if (lane >= d) {
      for (auto& of_key : scores) {
        for (F32& own : of_key) own = F32{};
      }
      return;
    }
  }
  add_column<true>(keys, d, queries, lane, scores);
  if constexpr (!kWhole) {
    if (lane + 1 == d) return;
  }
  F32 odd[kScoredKeys][kVectors];
  add_column<true>(keys, d, queries, lane + 1, odd);
  int64_t c = lane + kWidth;
  for (; c + 1 < d; c += kWidth) {
    add_column<false>(keys, d, queries, c, scores);
    add_column<false>(keys, d, queries, c + 1, odd);
  }
  if constexpr (!kWhole) {
    if (c < d) add_column<false>(keys, d, queries, c, scores);
  }
  for (int r = 0; r < kScoredKeys; ++r) {
    for (int v = 0; v < kVectors; ++v) scores[r][v] += odd[r][v];
  }
}

// weights[from + i][q] = queries[q] . keys[i], times the key's scale. Sums of lanes are added as
// sum_each adds them: a pair waits for the next pair, and both for the next two.
template <int kVectors, bool kScaled, bool kWhole>
__attribute__((noinline)) void score_floats(const Block& block, RowsAhead& ahead, int64_t from,
                                            int64_t n, int64_t d) {
  constexpr int kSums = kScoredKeys * kVectors * kWidth;
  alignas(64) float waiting[kScoredGroups][kLevels + 1][kSums];
  for (int64_t i = 0; i < n; i += kScoredGroups * kScoredKeys) {
    ahead.ask(kScoredGroups * kScoredKeys);
    for (int pair = 0; pair < kWidth / 2; ++pair) {
      for (int g = 0; g < kScoredGroups; ++g) {
        const float* keys = block.keys + (i + g * kScoredKeys) * d;
        F32 scores[kScoredKeys][kVectors];
        score_two_lanes<kWhole>(keys, d, block.queries, 2 * pair, scores);
        int level = 0;
        for (; pair >> level & 1; ++level) {
          for (int j = 0; j < kScoredKeys * kVectors; ++j) {
            scores[j / kVectors][j % kVectors] += load(waiting[g][level] + j * kWidth);
          }
        }
        for (int j = 0; j < kScoredKeys * kVectors; ++j) {
          store(waiting[g][level] + j * kWidth, scores[j / kVectors][j % kVectors]);
        }
      }
    }
    for (int k = 0; k < kScoredGroups * kScoredKeys; ++k) {
      float* to = block.weights + (from + i + k) * kMaxQueries;
      const float* sums = waiting[k / kScoredKeys][kLevels];
      for (int v = 0; v < kVectors; ++v) {
        const F32 own = load(sums + (k % kScoredKeys * kVectors + v) * kWidth);
        store(to + v * kWidth, kScaled ? own * block.key_scales[i + k] : own);
      }
    }
  }
}

// Digits of all queries become columns: see split_query.
inline void gather_digits(const Block& block, const Query* queries, int64_t n, int64_t d) {
  for (int64_t r = 0; r < n; ++r) {
    int8_t digits[kDigits * kMostTransposed];
    const DigitRow row = split_query(queries[r].q, d, digits);
    block.digits_rest[r] = row.rest;
    block.digits_step[r] = row.step;
    for (int k = 0; k < kDigits; ++k) block.digits_begin[k * kMaxQueries + r] = row.begin[k];
    for (int64_t c = 0; c < d; c += 4) {
      for (int k = 0; k < kDigits; ++k) {
        int32_t* to = block.digits + (c / 4 * kDigits + k) * kMaxQueries + r;
        std::memcpy(to, digits + k * d + c, sizeof *to);
      }
    }
  }
}

// sums += four levels of a key, the same in every lane, . those of four columns of each query;
// where kMayTranspose
inline I32 add_digits(I32 sums, [[maybe_unused]] int32_t levels,
                      [[maybe_unused]] const int32_t* digits) {
#if defined(__AVX512VNNI__)
  return (I32)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi32(levels), (__m512i)load(digits));
#else
  return sums;
#endif
}

// As score_floats, of int4 keys p .. p + n where they lie
template <int kVectors>
__attribute__((noinline)) void score_digits(const Block& block, const HeadRows<Nibbles>& keys,
                                            RowsAhead& ahead, const Places& places, int64_t p,
                                            int64_t from, int64_t n, int64_t d) {
  constexpr int kKeys = 2;  // times digits and vectors fit registers
  int64_t next = places.row(p);
  for (int64_t i = 0; i < n; i += kKeys) {
    ahead.ask(kKeys);
    const Nibbles* rows[kKeys];
    float scales[kKeys];
    for (int r = 0; r < kKeys && i + r < n; ++r) {
      rows[r] = keys.at(next);
      scales[r] = keys.scale(next);
      next = places.next_row(next);
    }
    if (i + 1 == n) rows[1] = rows[0];
    if (i + 1 == n) scales[1] = scales[0];
    I32 sums[kKeys][kVectors][kDigits];
    for (int r = 0; r < kKeys; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        for (int k = 0; k < kDigits; ++k) {
          sums[r][v][k] = load(block.digits_begin + k * kMaxQueries + v * kWidth);
        }
      }
    }
    const int32_t* digits = block.digits;
    for (int64_t c = 0; c < d; c += 8) {
      int32_t words[kKeys];
      for (int r = 0; r < kKeys; ++r) std::memcpy(words + r, along(rows[r], c), sizeof *words);
      for (int half = 0; half < 2; ++half, digits += kDigits * kMaxQueries) {
        for (int r = 0; r < kKeys; ++r) {
          const int32_t levels = (words[r] >> 4 * half) & 0x0f0f0f0f;
          for (int v = 0; v < kVectors; ++v) {
            for (int k = 0; k < kDigits; ++k) {
              const int32_t* four = digits + k * kMaxQueries + v * kWidth;
              sums[r][v][k] = add_digits(sums[r][v][k], levels, four);
            }
          }
        }
      }
    }
    for (int r = 0; r < kKeys; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        const F32 rest = load(block.digits_rest + v * kWidth);
        const F32 step = load(block.digits_step + v * kWidth);
        store(block.weights + (from + i + r) * kMaxQueries + v * kWidth,
              joined(sums[r][v], rest, step) * scales[r]);
      }
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
