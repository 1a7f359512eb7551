// Attention of the few query rows of one token and each group: keys and values straight from the
// cache, each converted once for all rows of a group.
//
// Softmax in one pass over chunks of positions: running maximum and sum of each query row
// (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"). A position is in the
// lane of its number, whatever the first one is; attention_block.h adds up in the same order.
#pragma once

#include <algorithm>

#include "ops/attention_nibbles.h"
#include "ops/attention_parts.h"

namespace llm {
namespace LLM_ISA {

constexpr int kFewRows = 8;  // more are faster as blocks: attention_block.h

// Key/value heads side by side that a task attends to, each with `group` queries.
struct Heads {
  int64_t first, count, group, d;
  int64_t end;  // of the positions: other tasks go on up to it
};

// Of keys, of values
struct Streams {
  Stream keys, values;
};

// products[r][j] += q[r] . key[i + j] over columns c .. c + kVectors * kWidth, still to be summed
// over lanes; the queries stay in registers.
template <bool kFirst, int kRows, int kVectors, typename K>
inline void add_products(const Query* queries, const HeadRows<K>& keys, int64_t i, int64_t n,
                         int64_t c, Stream& ahead, F32 (*products)[kWidth]) {
  F32 q[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) q[r][v] = load(queries[r].q + c + v * kWidth);
  }
  const K* row = keys.at(i, c);
  Stream asked = ahead;
  for (int64_t j = 0; j < n; ++j) {
    F32 key[kVectors];
    for (int v = 0; v < kVectors; ++v) key[v] = load(along(row, v * kWidth));
    row = reinterpret_cast<const K*>(reinterpret_cast<const uint8_t*>(row) + keys.stride);
    if (kFirst) asked.ask();
    for (int r = 0; r < kRows; ++r) {
      F32 total = kFirst ? rounded(key[0] * q[r][0]) : products[r][j] + key[0] * q[r][0];
      for (int v = 1; v < kVectors; ++v) total += key[v] * q[r][v];
      products[r][j] = total;
    }
  }
  if (kFirst) ahead = asked;
}

// Of columns that are no whole vector
template <bool kFirst, int kRows, typename K>
inline void add_last_products(const Query* queries, const HeadRows<K>& keys, int64_t i, int64_t n,
                              int64_t c, int64_t d, F32 (*products)[kWidth]) {
  for (int64_t j = 0; j < n; ++j) {
    const F32 key = load_part(keys.at(i + j, c), d - c);
    for (int r = 0; r < kRows; ++r) {
      const F32 product = key * load(queries[r].q + c);
      products[r][j] = kFirst ? product : products[r][j] + product;
    }
  }
}

// q[r] . key[i + j] of kWidth keys or fewer; the first columns begin the sums
template <int kRows, typename K>
inline void products_of(const Query* queries, const HeadRows<K>& keys, int64_t i, int64_t n,
                        int64_t d, Stream& ahead, F32 (*products)[kWidth]) {
  constexpr int kVectors = kRows > 4 ? 2 : 4;  // times kRows queries fit registers
  constexpr int64_t kColumns = kVectors * kWidth;
  int64_t c = 0;
  if (d >= kColumns) {
    add_products<true, kRows, kVectors>(queries, keys, i, n, 0, ahead, products);
    c = kColumns;
  } else if (d >= kWidth) {
    add_products<true, kRows, 1>(queries, keys, i, n, 0, ahead, products);
    c = kWidth;
  } else {
    return add_last_products<true, kRows>(queries, keys, i, n, 0, d, products);
  }
  for (; c + kColumns <= d; c += kColumns) {
    add_products<false, kRows, kVectors>(queries, keys, i, n, c, ahead, products);
  }
  for (; c + kWidth <= d; c += kWidth) {
    add_products<false, kRows, 1>(queries, keys, i, n, c, ahead, products);
  }
  if (c < d) add_last_products<false, kRows>(queries, keys, i, n, c, d, products);
}

// scores[r][i] = q[r] . key[i]
template <int kRows, typename K>
__attribute__((noinline)) void score(const Query* queries, const HeadRows<K>& keys, int64_t n,
                                     int64_t d, Stream& ahead, float* scores) {
  for (int64_t i = 0; i < n; i += kWidth) {
    const int64_t count = n - i < kWidth ? n - i : kWidth;
    F32 products[kRows][kWidth];
    if (count < kWidth) std::memset(products, 0, sizeof products);
    products_of<kRows>(queries, keys, i, count, d, ahead, products);
    const F32 scales = keys.scales(i, count);
    for (int r = 0; r < kRows; ++r) {
      store(scores + r * kPositions + i, sum_each(products[r]) * scales);
    }
  }
}

// Vectors of scores of a row that become weights together, while those of other rows do
template <int kRows>
constexpr int kWeighed = kRows < 3 ? 4 / kRows : 1;

// Positions of a chunk, from one that is in the first lane on: those seen are first .. n.
struct SeenRows {
  int64_t first, n;
};

// The largest score of each row, or what was the largest before; scores of what is not seen weigh
// so little that they add nothing.
template <int kRows>
inline void find_most(const Query* queries, const SeenRows& seen, float* scores,
                      F32 (&most)[kRows]) {
  constexpr int64_t kStep = kWeighed<kRows> * kWidth;
  const int64_t n = seen.n, end = (n + kStep - 1) / kStep * kStep;
  for (int r = 0; r < kRows; ++r) {
    float* row = scores + r * kPositions;
    for (int64_t i = 0; i < seen.first; ++i) row[i] = -__builtin_inff();
    for (int64_t i = n; i < end; ++i) row[i] = -__builtin_inff();
    most[r] = broadcast(queries[r].part.most);
  }
  for (int64_t i = 0; i < n; i += kWidth) {
    for (int r = 0; r < kRows; ++r) most[r] = max(load(scores + r * kPositions + i), most[r]);
  }
  for (int r = 0; r < kRows; ++r) most[r] = broadcast(largest(most[r]));
}

// Scores become factors of the values, which are weights times their scales; what was gathered
// before shrinks to the new maximum. Rows go side by side: none waits for its own last vector.
template <int kRows, typename V>
__attribute__((noinline)) void weigh(Query* queries, const HeadRows<V>& values,
                                     const SeenRows& seen, int64_t d, float* scores) {
  F32 most[kRows], weights[kRows] = {};
  find_most<kRows>(queries, seen, scores, most);
  constexpr int kVectors = kWeighed<kRows>;
  const int64_t n = seen.n;
  for (int64_t i = 0; i < n; i += kVectors * kWidth) {
    F32 w[kVectors * kRows];
    for (int k = 0; k < kVectors * kRows; ++k) {
      w[k] = load(scores + k % kRows * kPositions + i + k / kRows * kWidth) - most[k % kRows];
    }
    exp(w);
    for (int v = 0; v < kVectors; ++v) {
      const int64_t first = i + v * kWidth;
      const F32 scales = values.scales(first, n - first);
      for (int r = 0; r < kRows; ++r) {
        store(scores + r * kPositions + first, w[v * kRows + r] * scales);
        weights[r] += w[v * kRows + r];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    WeightedSum& part = queries[r].part;
    const F32 shrink = exp(broadcast(part.most) - most[r]);
    part.weight = (broadcast(part.weight) * shrink + broadcast(sum(weights[r])))[0];
    part.most = most[r][0];
    for (int64_t i = 0; i < padded(d); i += kWidth) {
      store(part.values + i, load(part.values + i) * shrink);
    }
  }
}

// sum[r][0 .. kVectors) += weights[r][i] * values[i], kept in registers over all positions
template <int kRows, int kVectors, typename T>
inline void gather_columns(const float* weights, const HeadRows<T>& values, int64_t c, int64_t n,
                           const Query* queries, Stream ahead) {
  F32 totals[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) totals[r][v] = load(queries[r].part.values + c + v * kWidth);
  }
  for (int64_t i = 0; i < n; ++i) {
    ahead.ask();
    for (int v = 0; v < kVectors; ++v) {
      const F32 value = load(values.at(i, c + v * kWidth));
      for (int r = 0; r < kRows; ++r) totals[r][v] += value * weights[r * kPositions + i];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(queries[r].part.values + c + v * kWidth, totals[r][v]);
  }
}

template <int kRows, typename T>
__attribute__((noinline)) void gather(const float* weights, const HeadRows<T>& values, int64_t n,
                                      int64_t d, const Query* queries, Stream& ahead) {
  constexpr int kVectors = kWidth > 8 && kRows < 6 ? 4 : 2;  // times kRows sums fit registers
  int64_t c = 0;
  const auto ask = [&](int64_t from) { return from == 0 ? ahead : Stream{}; };
  for (; c + kVectors * kWidth <= d; c += kVectors * kWidth) {
    gather_columns<kRows, kVectors>(weights, values, c, n, queries, ask(c));
  }
  for (; c + kWidth <= d; c += kWidth) {
    gather_columns<kRows, 1>(weights, values, c, n, queries, ask(c));
  }
  ahead.skip(n);
  if (c == d) return;
  for (int r = 0; r < kRows; ++r) {
    F32 total = load(queries[r].part.values + c);
    for (int64_t i = 0; i < n; ++i) {
      total += load_part(values.at(i, c), d - c) * weights[r * kPositions + i];
    }
    store(queries[r].part.values + c, total);
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

template <int kRows, typename K>
inline void score_keys(const Query* queries, const HeadRows<K>& keys, int64_t n, int64_t d,
                       Stream& ahead, float* scores) {
  if constexpr (kMayTranspose<K>) {
    if (transposes<K>(d)) return score_transposed<kRows>(queries, keys, n, d, ahead, scores);
  }
  score<kRows>(queries, keys, n, d, ahead, scores);
}

// Positions of a chunk from p on, which lie from the first row of `keys` and `values` on
template <int kRows, typename K, typename V>
inline void attend_run(Query* queries, float* scores, const HeadRows<K>& keys,
                       const HeadRows<V>& values, int64_t p, const SeenRows& seen, int64_t d,
                       Streams& ahead) {
  const int64_t n = seen.n;
  score_keys<kRows>(queries, keys, n, d, ahead.keys, scores);
  if (queries[0].bias.row != nullptr) add_biases(queries, kRows, p, n, scores);
  if (queries[0].softcap > 0) {
    for (int r = 0; r < kRows; ++r) cap(scores + r * kPositions, padded(n), queries[0].softcap);
  }
  weigh<kRows>(queries, values, seen, d, scores);
  gather<kRows>(scores + seen.first, values.from(seen.first), n - seen.first, d, queries,
                ahead.values);
}

template <int kRows = 1, typename K, typename V>
inline void attend_run(int64_t n_queries, Query* queries, float* scores, const HeadRows<K>& keys,
                       const HeadRows<V>& values, int64_t p, const SeenRows& seen, int64_t d,
                       Streams& ahead) {
  if (n_queries == kRows) {
    return attend_run<kRows>(queries, scores, keys, values, p, seen, d, ahead);
  }
  if constexpr (kRows < kFewRows) {
    attend_run<kRows + 1>(n_queries, queries, scores, keys, values, p, seen, d, ahead);
  }
}

// The heads' part of rows `row` .. row + n of a cache, or all of them where heads take most.
template <typename T>
inline Stream stream_of(const Tensor& cache, const Heads& heads, int64_t row, int64_t n) {
  const HeadRows<T> rows = head_rows<T>(cache, 0, heads.d);
  const auto* first = reinterpret_cast<const uint8_t*>(rows.at(row));
  const int64_t lines = (rows.stride / heads.count + kLine / 2) / kLine;
  return {first, first + n * rows.stride, lines > 0 ? static_cast<int>(lines) : 1};
}

// Of positions whose rows lie apart, those of a head side by side: bytes, of any type of cache
inline int64_t gathered_bytes(int64_t d) {
  return kPositions * (d * static_cast<int64_t>(sizeof(float)) + kLine);
}

// A head's rows of n positions from p on, copied into `memory`, where they follow each other.
template <typename T>
inline HeadRows<T> gathered(const HeadRows<T>& rows, const Places& places, int64_t p, int64_t n,
                            int64_t d, uint8_t* memory) {
  const int64_t bytes = value_bytes<T>(d), scale = kHasScale<T> ? sizeof(Half) : 0;
  const int64_t stride = (bytes + scale + 7) / 8 * 8;
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* row = rows.first + places.row(p + i) * rows.stride;
    std::memcpy(memory + i * stride, row, bytes);
    std::memcpy(memory + i * stride + bytes, row + rows.to_scale, scale);
  }
  return {memory, stride, bytes};
}

// A head's rows of n positions from p on, where they lie or, if they do not follow each other
// there, in `memory`.
template <typename T>
inline HeadRows<T> rows_of(const Tensor& cache, const Places& places, int64_t head, int64_t p,
                           int64_t n, int64_t d, uint8_t* memory) {
  const HeadRows<T> rows = head_rows<T>(cache, head, d);
  return places.adjoin(p, n) ? rows.from(places.row(p)) : gathered(rows, places, p, n, d, memory);
}

// Of a task's memory behind its queries: [kFewRows][kPositions] scores, the digits of the queries,
// and gathered_bytes twice
inline int64_t row_floats(int64_t d) {
  return kFewRows * kPositions + (kMaxQueries * kDigits * d + 2 * gathered_bytes(d)) / 4 + 1;
}

// queries: [heads.count][heads.group], all of which see the same positions. A chunk of positions is
// taken by all heads before the next, so that the cache is read in one stream: heads whose rows lie
// side by side share its lines. What is asked for goes on into the next task's part, which this
// thread takes next. Calls done(part) for each of the parts, once all queries have gathered it.
template <typename K, typename V, typename Done>
inline void attend_rows(Query* queries, const Heads& heads, float* scores, const Tensor& keys,
                        const Tensor& values, const Places& places, const Parts& parts, Range some,
                        const Done& done) {
  const int64_t d = heads.d, n_queries = heads.count * heads.group;
  auto* const digits = reinterpret_cast<int8_t*>(scores + kFewRows * kPositions);
  for (int64_t r = 0; r < n_queries && transposes<K>(d); ++r) {
    queries[r].digits = split_query(queries[r].q, d, digits + r * kDigits * d);
  }
  auto* const gathered_keys = reinterpret_cast<uint8_t*>(digits + kMaxQueries * kDigits * d);
  uint8_t* const gathered_values = gathered_keys + gathered_bytes(d);
  for (int64_t part = some.begin; part < some.end; ++part) {
    const int64_t end = std::min(queries[0].end, parts.begin(part + 1));
    for (int64_t r = 0; r < n_queries; ++r) begin_sum(queries[r].part, d);
    for (int64_t p = std::max(queries[0].begin, parts.begin(part)); p < end;) {
      const int64_t next = std::min(end, (p / kPositions + 1) * kPositions);
      const int64_t first = p / kWidth * kWidth;
      const SeenRows seen = {p - first, next - first};
      const int64_t left = std::min(heads.end - next, kPositions);
      const int64_t later = left > 0 ? places.run(next, left) : 0;
      const int64_t later_row = left > 0 ? places.row(next) : 0;
      Streams ahead = {stream_of<K>(keys, heads, later_row, later),
                       stream_of<V>(values, heads, later_row, later)};
      for (int64_t h = 0; h < heads.count; ++h) {
        attend_run(heads.group, queries + h * heads.group, scores,
                   rows_of<K>(keys, places, heads.first + h, first, seen.n, d, gathered_keys),
                   rows_of<V>(values, places, heads.first + h, first, seen.n, d, gathered_values),
                   first, seen, d, ahead);
      }
      p = next;
    }
    done(part);
  }
}

}  // namespace LLM_ISA
}  // namespace llm
