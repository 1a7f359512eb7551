// Attention of the few query rows of one token and one group: keys and values straight from the
// cache, each converted once for all rows.
//
// Softmax in one pass over blocks of positions: running maximum and sum of each query row
// (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
#pragma once

#include "ops/attention_cache.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kPositions = 128;  // of a block
constexpr int kFewRows = 5;          // more are faster as blocks: attention_block.h
constexpr int64_t kAhead = 32;       // positions whose keys are asked for beforehand
constexpr size_t kLine = 64;         // bytes of a cache line

// Rows of one head lie too far apart for the processor to guess the next. They may begin in the
// middle of a line.
template <typename T>
inline void prefetch_rows(const HeadRows<T>& rows, int64_t first, int64_t last, int64_t d) {
  for (int64_t i = first; i < last; ++i) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(rows.at(i));
    const auto* const end = bytes + d * sizeof(T);
    for (; bytes < end; bytes += kLine) __builtin_prefetch(bytes);
    __builtin_prefetch(end - 1);
  }
}

// q . keys of kKeys positions, still to be summed over lanes
template <int kRows, int kKeys, typename K>
inline void products_of(const Query* queries, const HeadRows<K>& keys, int64_t i, int64_t d,
                        F32 (*products)[kWidth]) {
  F32 totals[kRows][kKeys] = {};
  const auto add = [&](int64_t c, const F32(&key)[kKeys]) {
    for (int r = 0; r < kRows; ++r) {
      const F32 q = load(queries[r].q + c);
      for (int k = 0; k < kKeys; ++k) totals[r][k] += key[k] * q;
    }
  };
  F32 key[kKeys];
  int64_t c = 0;
  for (; c + kWidth <= d; c += kWidth) {
    for (int k = 0; k < kKeys; ++k) key[k] = load(keys.at(i + k) + c);
    add(c, key);
  }
  if (c < d) {
    for (int k = 0; k < kKeys; ++k) key[k] = load_part(keys.at(i + k) + c, d - c);
    add(c, key);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int k = 0; k < kKeys; ++k) products[r][k] = totals[r][k];
  }
}

// scores[r][i] = q[r] . key[i]. The rows are not in the processor's caches yet: these positions'
// values and the next keys, of `last` in all, are on their way then.
template <int kRows, typename K, typename V>
inline void score(const Query* queries, const HeadRows<K>& keys, const HeadRows<V>& values,
                  int64_t n, int64_t last, int64_t d, float* scores) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const int64_t next = i + kAhead;
    prefetch_rows(keys, next, last - next < kWidth ? last : next + kWidth, d);
    prefetch_rows(values, i, i + kWidth, d);
    F32 products[kRows][kWidth];
    for (int j = 0; j < kWidth; j += 2) {
      F32 pair[kRows][kWidth];
      products_of<kRows, 2>(queries, keys, i + j, d, pair);
      for (int r = 0; r < kRows; ++r) {
        products[r][j] = pair[r][0];
        products[r][j + 1] = pair[r][1];
      }
    }
    for (int r = 0; r < kRows; ++r) store(scores + r * kPositions + i, sum_each(products[r]));
  }
  for (; i < n; ++i) {
    for (int r = 0; r < kRows; ++r) scores[r * kPositions + i] = dot(keys.at(i), queries[r].q, d);
  }
}

// scores become weights; what was gathered before shrinks to the new maximum
inline void weigh(Query& query, int64_t n, int64_t d, float* scores) {
  for (int64_t i = n; i < padded(n); ++i) scores[i] = -__builtin_inff();  // weighs nothing
  F32 highest = broadcast(query.most);
  for (int64_t i = 0; i < n; i += kWidth) highest = max(load(scores + i), highest);
  const float most = largest(highest);
  F32 weights = {};
  for (int64_t i = 0; i < n; i += kWidth) {
    const F32 w = exp(load(scores + i) - most);
    store(scores + i, w);
    weights += w;
  }
  const F32 shrink = exp(broadcast(query.most - most));
  query.weight = query.weight * shrink[0] + sum(weights);
  query.most = most;
  for (int64_t i = 0; i < padded(d); i += kWidth) {
    store(query.sum + i, load(query.sum + i) * shrink);
  }
}

// sum[r][0 .. kVectors) += weights[r][i] * values[i], kept in registers over all positions
template <int kRows, int kVectors, typename T>
inline void gather_columns(const float* weights, const HeadRows<T>& values, int64_t c, int64_t n,
                           const Query* queries) {
  F32 totals[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) totals[r][v] = load(queries[r].sum + c + v * kWidth);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      const F32 value = load(values.at(i) + c + v * kWidth);
      for (int r = 0; r < kRows; ++r) totals[r][v] += value * weights[r * kPositions + i];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(queries[r].sum + c + v * kWidth, totals[r][v]);
  }
}

template <int kRows, typename T>
inline void gather(const float* weights, const HeadRows<T>& values, int64_t n, int64_t d,
                   const Query* queries) {
  constexpr int kVectors = kWidth > 8 ? 4 : 2;  // times kRows accumulators fit registers
  int64_t c = 0;
  for (; c + kVectors * kWidth <= d; c += kVectors * kWidth) {
    gather_columns<kRows, kVectors>(weights, values, c, n, queries);
  }
  for (; c + kWidth <= d; c += kWidth) gather_columns<kRows, 1>(weights, values, c, n, queries);
  if (c == d) return;
  for (int r = 0; r < kRows; ++r) {
    F32 total = load(queries[r].sum + c);
    for (int64_t i = 0; i < n; ++i) {
      total += load_part(values.at(i) + c, d - c) * weights[r * kPositions + i];
    }
    store(queries[r].sum + c, total);
  }
}

// factors[r][i] *= scale of row i, where rows have one
template <typename T>
inline void scale_each(const HeadRows<T>& rows, int64_t n, int n_queries, float* factors) {
  if constexpr (std::is_same<T, int8_t>::value) {
    alignas(64) float scales[kPositions];
    rows.scales(scales, n);
    for (int r = 0; r < n_queries; ++r) {
      float* row = factors + r * kPositions;
      for (int64_t i = 0; i < n; i += kWidth) store(row + i, load(row + i) * load(scales + i));
    }
  }
}

// scores[r][i] += bias of position p + i
inline void add_biases(const Query* queries, int64_t n_queries, int64_t p, int64_t n,
                       float* scores) {
  for (int64_t r = 0; r < n_queries; ++r) {
    float* row = scores + r * kPositions;
    for (int64_t i = 0; i < n; i += kWidth)
      store(row + i, load(row + i) + queries[r].bias.at(p + i));
  }
}

// n positions from p on, which lie from the first row of `keys` and `values` on; behind them others
// follow up to `last`
template <int kRows, typename K, typename V>
inline void attend_run(Query* queries, float* scores, const HeadRows<K>& keys,
                       const HeadRows<V>& values, int64_t p, int64_t n, int64_t last, int64_t d) {
  score<kRows>(queries, keys, values, n, last, d, scores);
  scale_each(keys, n, kRows, scores);
  if (queries[0].bias.row != nullptr) add_biases(queries, kRows, p, n, scores);
  if (queries[0].softcap > 0) {
    for (int r = 0; r < kRows; ++r) cap(scores + r * kPositions, padded(n), queries[0].softcap);
  }
  for (int r = 0; r < kRows; ++r) weigh(queries[r], n, d, scores + r * kPositions);
  scale_each(values, n, kRows, scores);
  gather<kRows>(scores, values, n, d, queries);
}

template <int kRows = 1, typename K, typename V>
inline void attend_run(Query* queries, int64_t n_queries, float* scores, const HeadRows<K>& keys,
                       const HeadRows<V>& values, int64_t p, int64_t n, int64_t last, int64_t d) {
  if (n_queries == kRows) return attend_run<kRows>(queries, scores, keys, values, p, n, last, d);
  if constexpr (kRows < kFewRows) {
    attend_run<kRows + 1>(queries, n_queries, scores, keys, values, p, n, last, d);
  }
}

// All queries see the same positions. scores: [kFewRows][kPositions]
template <typename K, typename V>
inline void attend_rows(Query* queries, int64_t n_queries, float* scores, const HeadRows<K>& keys,
                        const HeadRows<V>& values, const Places& places, int64_t d) {
  const int64_t end = queries[0].end;
  int64_t behind =
      -1;  // the row behind the run before, whose keys are asked for if it goes on there
  for (int64_t p = queries[0].begin; p < end;) {
    const int64_t row = places.row(p), last = places.run(p, end - p);
    const int64_t n = last < kPositions ? last : kPositions;
    if (row != behind) prefetch_rows(keys, row, row + (n < kAhead ? n : kAhead), d);
    behind = row + n;
    attend_run(queries, n_queries, scores, keys.from(row), values.from(row), p, n, last, d);
    p += n;
  }
}

}  // namespace LLM_ISA
}  // namespace llm
