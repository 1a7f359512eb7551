// Attention of a few query rows: one row after the other, keys and values straight from the cache.
//
// Softmax in one pass over blocks of positions: running maximum and sum of each query row
// (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
#pragma once

#include "base/exp.h"
#include "ops/attention_cache.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kPositions = 128;  // of a block
constexpr size_t kLine = 64;         // bytes of a cache line

// Rows of one head lie too far apart for the processor to guess the next.
template <typename T>
inline void prefetch_rows(const HeadRows<T>& rows, int64_t first, int64_t n, int64_t d) {
  for (int64_t i = first; i < first + n; ++i) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(rows.at(i));
    for (size_t at = 0; at < d * sizeof(T); at += kLine) __builtin_prefetch(bytes + at);
  }
}

// scores[i] = q . key[i]; where the rows are not in the cache yet, these positions' values and the
// next keys are on their way then.
template <typename K, typename V>
inline void score(const Query& query, const HeadRows<K>& keys, const HeadRows<V>& values, int64_t n,
                  int64_t d, bool cold, float* scores) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    if (cold) {
      const int64_t left = n - i - kWidth;
      prefetch_rows(keys, i + kWidth, left < kWidth ? left : kWidth, d);
      prefetch_rows(values, i, kWidth, d);
    }
    F32 products[kWidth];
    for (int j = 0; j < kWidth; ++j) products[j] = dot_lanes(keys.at(i + j), query.q, d);
    store(scores + i, sum_each(products));
  }
  for (; i < n; ++i) scores[i] = dot(keys.at(i), query.q, d);
  keys.scale(scores, n);
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

// sum[0 .. kVectors) += weights[i] * values[i], kept in registers over all positions
template <int kVectors, typename T>
inline void gather_columns(const float* weights, const HeadRows<T>& values, int64_t c, int64_t n,
                           float* sum) {
  F32 totals[kVectors];
  for (int v = 0; v < kVectors; ++v) totals[v] = load(sum + v * kWidth);
  for (int64_t i = 0; i < n; ++i) {
    const T* row = values.at(i) + c;
    for (int v = 0; v < kVectors; ++v) totals[v] += load(row + v * kWidth) * weights[i];
  }
  for (int v = 0; v < kVectors; ++v) store(sum + v * kWidth, totals[v]);
}

template <typename T>
inline void gather(float* weights, const HeadRows<T>& values, int64_t n, int64_t d, float* sum) {
  values.scale(weights, n);
  int64_t c = 0;
  for (; c + 4 * kWidth <= d; c += 4 * kWidth) {
    gather_columns<4>(weights, values, c, n, sum + c);
  }
  for (; c + kWidth <= d; c += kWidth) gather_columns<1>(weights, values, c, n, sum + c);
  if (c == d) return;
  F32 total = load(sum + c);
  for (int64_t i = 0; i < n; ++i) total += load_part(values.at(i) + c, d - c) * weights[i];
  store(sum + c, total);
}

// Positions first..last-1 of a query; position p lies in row p mod `ring`.
template <typename K, typename V>
inline void attend_run(float* scores, Query& query, const HeadRows<K>& keys,
                       const HeadRows<V>& values, int64_t ring, int64_t first, int64_t last,
                       int64_t d, bool cold) {
  while (first < last) {
    const int64_t row = first % ring;
    const int64_t n = last - first < ring - row ? last - first : ring - row;
    score(query, keys.from(row), values.from(row), n, d, cold, scores);
    weigh(query, n, d, scores);
    gather(scores, values.from(row), n, d, query.sum);
    first += n;
  }
}

template <typename K, typename V>
inline void attend_rows(Query* queries, int64_t n_queries, float* scores, const HeadRows<K>& keys,
                        const HeadRows<V>& values, int64_t ring, int64_t d) {
  int64_t begin = queries[0].begin, end = queries[0].end;
  for (int64_t r = 1; r < n_queries; ++r) {
    begin = queries[r].begin < begin ? queries[r].begin : begin;
    end = queries[r].end > end ? queries[r].end : end;
  }
  for (int64_t p = begin; p < end; p += kPositions) {
    for (int64_t r = 0; r < n_queries; ++r) {
      Query& query = queries[r];
      const int64_t first = query.begin > p ? query.begin : p;
      const int64_t last = query.end < p + kPositions ? query.end : p + kPositions;
      attend_run(scores, query, keys, values, ring, first, last, d, r == 0);
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
