// Attention of many query rows that share keys: two matrix products a chunk of positions.
//
// Queries lie side by side in the lanes of vectors, so that a key's value is broadcast to all of
// them and softmax needs no sums over lanes. Running maximum and sum as in attention_rows.h, and a
// query gets the same bits: what that file adds up over the lanes of a vector is added in the same
// order here.
#pragma once

#include "ops/attention_block_memory.h"
#include "ops/attention_block_scores.h"

namespace llm {
namespace LLM_ISA {

// Calls pass(block from a query on, vectors of queries as a constant) for all of them.
template <typename Pass>
inline void in_vectors(const Block& block, const Pass& pass) {
  int64_t query = 0;
  for (; block.n_queries - query > (kMostVectors - 1) * kWidth; query += kMostVectors * kWidth) {
    pass(block.from(query), std::integral_constant<int, kMostVectors>());
  }
  if (block.n_queries - query > kWidth) {
    pass(block.from(query), std::integral_constant<int, 2>());
  } else if (block.n_queries > query) {
    pass(block.from(query), std::integral_constant<int, 1>());
  }
}

// scores[i][query] += bias of position p + i
inline void add_biases(const Block& block, int64_t p, int64_t n, int vectors) {
  for (int v = 0; v < vectors; ++v) {
    const int64_t first = v * kWidth;
    for (int64_t i = 0; i < n; i += kWidth) {
      F32 tile[kWidth];  // queries become columns
      for (int64_t q = 0; q < kWidth; ++q) {
        tile[q] = first + q < block.n_queries ? block.biased[first + q].bias.at(p + i) : F32{};
      }
      transpose(tile);
      float* scores = block.weights + i * kMaxQueries + first;
      const int64_t count = n - i < kWidth ? n - i : kWidth;
      for (int64_t j = 0; j < count; ++j, scores += kMaxQueries) {
        store(scores, load(scores) + tile[j]);
      }
    }
  }
}

// Scores of positions that a query does not see weigh nothing.
inline void mask(const Block& block, int64_t n, int vectors) {
  for (int v = 0; v < vectors; ++v) {
    const I32 begin = load(block.begin + v * kWidth), end = load(block.end + v * kWidth);
    for (int64_t i = 0; i < n; ++i) {
      const int32_t p = static_cast<int32_t>(i);
      float* at = block.weights + i * kMaxQueries + v * kWidth;
      store(at, choose((begin <= p) & (end > p), load(at), broadcast(-__builtin_inff())));
    }
  }
}

constexpr int kWeighedRows = 4;  // whose weights are computed side by side

// Scores of a vector of queries become factors of the values, which are weights times their scales;
// and those by which what was gathered before shrinks.
template <bool kMasked>
inline void weigh_vector(const Block& block, int64_t n) {
  const F32 before = load(block.most);
  F32 most = before;
  for (int64_t i = 0; i < n; ++i) most = max(load(block.weights + i * kMaxQueries), most);
  for (int64_t i = n; i < padded(n); ++i) {
    store(block.weights + i * kMaxQueries, broadcast(-__builtin_inff()));
  }
  for (int64_t i = 0; i < padded(n); i += kWeighedRows) {
    float* at = block.weights + i * kMaxQueries;
    F32 w[kWeighedRows];
    I32 unseen[kWeighedRows];
    for (int k = 0; k < kWeighedRows; ++k) {
      const F32 score = load(at + k * kMaxQueries);
      unseen[k] = score < kLowest;
      w[k] = score - most;
    }
    exp(w);
    for (int k = 0; k < kWeighedRows; ++k) {
      store(at + k * kMaxQueries, kMasked ? choose(unseen[k], F32{}, w[k]) : w[k]);
    }
  }
  F32 sums[kWidth] = {};  // a position in that of its lane, as in attention_rows.h
  for (int64_t i = 0; i < n; i += kWidth) {
    const float* at = block.weights + i * kMaxQueries;
    for (int j = 0; j < kWidth; ++j) sums[j] += load(at + j * kMaxQueries);
  }
  for (int64_t i = 0; i < n && block.value_scales != nullptr; ++i) {
    float* at = block.weights + i * kMaxQueries;
    store(at, load(at) * block.value_scales[i]);
  }
  const F32 shrink = exp(before - most);
  store(block.most, most);
  store(block.shrink, shrink);
  store(block.weight, load(block.weight) * shrink + sum_vectors(sums));
}

template <bool kMasked>
__attribute__((noinline)) void weigh(const Block& block, int64_t n, int vectors) {
  for (int v = 0; v < vectors; ++v) weigh_vector<kMasked>(block.from(v * kWidth), n);
}

// sums[c][q] = sums[c][q] * shrink[q] + sum over i of values[i][c] * weights[from + i][q]; only the
// first values of a chunk let the sums shrink. c < kValueColumns
template <int kVectors>
inline void add_values(const Block& block, int64_t c, int64_t from, int64_t n, int64_t stride) {
  float* sums = block.sums + c * kMaxQueries;
  F32 totals[kValueColumns][kVectors];
  for (int r = 0; r < kValueColumns; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      totals[r][v] = load(sums + r * kMaxQueries + v * kWidth);
      if (from == 0) totals[r][v] = rounded(totals[r][v] * load(block.shrink + v * kWidth));
    }
  }
  const float *values = block.values + c, *weights = block.weights + from * kMaxQueries;
  for (int64_t i = 0; i < n; ++i, values += stride, weights += kMaxQueries) {
    F32 row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = load(weights + v * kWidth);
    for (int r = 0; r < kValueColumns; ++r) {
      for (int v = 0; v < kVectors; ++v) totals[r][v] += row[v] * values[r];
    }
  }
  for (int r = 0; r < kValueColumns; ++r) {
    for (int v = 0; v < kVectors; ++v) store(sums + r * kMaxQueries + v * kWidth, totals[r][v]);
  }
}

// Positions p .. p + n of a cache, none in the next page; `stride` apart, the rest of it 0. Scales,
// where there are any, by themselves.
template <typename T>
inline void unpack(const HeadRows<T>& rows, const Places& places, int64_t p, int64_t n, int64_t d,
                   int64_t stride, float* out, float* scales) {
  int64_t r = places.row(p);
  for (int64_t i = 0; i < n; r = places.next_row(r), ++i, out += stride) {
    const T* row = rows.at(r);
    if constexpr (kHasScale<T>) scales[i] = rows.scale(r);
    int64_t c = 0;
    for (; c + kWidth <= d; c += kWidth) store(out + c, load(along(row, c)));
    for (; c < stride; ++c) out[c] = 0;
    const int64_t left = d % kWidth;
    if (left != 0) store_part(out + d - left, load_part(along(row, d - left), left), left);
  }
}

template <typename K>
inline void score_block(const Block& block, const HeadRows<K>& keys, const Places& places,
                        int64_t p, int64_t from, int64_t n, int64_t d) {
  RowsAhead ahead = rows_ahead(keys, places.row(p) + n, kBlock, d);
  if constexpr (kMayTranspose<K>) {
    if (transposes<K>(d)) {
      return in_vectors(block, [&](const Block& some, auto vectors) {
        score_digits<vectors()>(some, keys, ahead, places, p, from, n, d);
      });
    }
  }
  unpack(keys, places, p, n, d, d, block.keys, block.key_scales);
  in_vectors(block, [&](const Block& some, auto vectors) {
    if (d % kWidth == 0) {
      score_floats<vectors(), kHasScale<K>, true>(some, ahead, from, n, d);
    } else {
      score_floats<vectors(), kHasScale<K>, false>(some, ahead, from, n, d);
    }
  });
}

// n positions from p on, of one chunk
template <typename K, typename V>
inline void attend_chunk(Block block, const HeadRows<K>& keys, const HeadRows<V>& values,
                         const Places& places, int64_t p, int64_t n, int64_t d, bool masked) {
  for (int64_t from = 0; from < n; from += kBlock) {
    score_block(block, keys, places, p + from, from, std::min(n - from, kBlock), d);
  }
  if (kHasScale<V>) {
    int64_t r = places.row(p);
    for (int64_t i = 0; i < n; r = places.next_row(r), ++i) {
      block.value_scales[i] = values.scale(r);
    }
  } else {
    block.value_scales = nullptr;
  }
  in_vectors(block, [&](const Block& some, auto vectors) {
    if (some.biased != nullptr) add_biases(some, p, n, vectors);
    for (int64_t i = 0; i < n && some.softcap > 0; ++i) {
      cap(some.weights + i * kMaxQueries, vectors * kWidth, some.softcap);
    }
    if (masked) {
      mask(some, n, vectors);
      weigh<true>(some, n, vectors);
    } else {
      weigh<false>(some, n, vectors);
    }
  });
  float unused[kBlock];
  for (int64_t from = 0; from < n; from += kBlock) {
    const int64_t count = std::min(n - from, kBlock);
    unpack(values, places, p + from, count, d, padded(d), block.values, unused);
    RowsAhead ahead = rows_ahead(values, places.row(p + from) + count, kBlock, d);
    const int64_t each = (kBlock * kValueColumns + d - 1) / d;
    in_vectors(block, [&](const Block& some, auto vectors) {
      for (int64_t c = 0; c < d; c += kValueColumns) {
        ahead.ask(each);
        add_values<vectors()>(some, c, from, count, padded(d));
      }
    });
  }
}

// Of all queries of a task
struct Seen {
  int64_t begin, end;          // what some query sees
  int64_t all_begin, all_end;  // and what all of them do
};

inline Seen seen_by(const Query* queries, int64_t n) {
  Seen seen = {queries[0].begin, queries[0].end, queries[0].begin, queries[0].end};
  for (int64_t r = 1; r < n; ++r) {
    seen.begin = queries[r].begin < seen.begin ? queries[r].begin : seen.begin;
    seen.end = queries[r].end > seen.end ? queries[r].end : seen.end;
    seen.all_begin = queries[r].begin > seen.all_begin ? queries[r].begin : seen.all_begin;
    seen.all_end = queries[r].end < seen.all_end ? queries[r].end : seen.all_end;
  }
  return seen;
}

// What each query sees of positions p .. p + n, which not all of them see whole.
inline void place(const Block& block, const Query* queries, int64_t n_queries, int64_t p,
                  int64_t n) {
  for (int64_t r = 0; r < n_queries; ++r) {
    const int64_t begin = queries[r].begin - p, end = queries[r].end - p;
    block.begin[r] = static_cast<int32_t>(begin < 0 ? 0 : begin < n ? begin : n);
    block.end[r] = static_cast<int32_t>(end < 0 ? 0 : end < n ? end : n);
  }
}

// Calls done(part) for each of the parts, once all queries have gathered it; where `together`, the
// parts are added here, and at the end they are the queries' totals.
template <typename K, typename V, typename Done>
inline void attend_blocks(Query* queries, int64_t n_queries, float* memory, const HeadRows<K>& keys,
                          const HeadRows<V>& values, const Places& places, const Parts& parts,
                          Range some, int64_t d, bool together, const Done& done) {
  static_assert(kPage % kPositions == 0, "a chunk lies in one page");
  Block block = block_in(memory, d);
  block.softcap = queries[0].softcap;
  block.biased = queries[0].bias.row != nullptr ? queries : nullptr;
  block.n_queries = n_queries;
  gather_queries(block, queries, n_queries, d);
  if (transposes<K>(d)) gather_digits(block, queries, n_queries, d);
  if (together) begin_sums(block, block.totals, block.total_most, block.total_weight, d);
  const Seen seen = seen_by(queries, n_queries);
  for (int64_t part = some.begin; part < some.end; ++part) {
    begin_sums(block, block.sums, block.most, block.weight, d);
    const int64_t begin = std::max(seen.begin, parts.begin(part));
    const int64_t end = std::min(seen.end, parts.begin(part + 1));
    for (int64_t p = begin / kWidth * kWidth; p < end;) {
      const int64_t next = std::min(end, (p / kPositions + 1) * kPositions);
      const bool masked = p < seen.all_begin || next > seen.all_end;
      if (masked) place(block, queries, n_queries, p, next - p);
      attend_chunk(block, keys, values, places, p, next - p, d, masked);
      p = next;
    }
    if (together) {
      add_part(block, d);
    } else {
      scatter_sums(block.sums, block.most, block.weight, n_queries, d,
                   [&](int64_t r) { return &queries[r].part; });
      done(part);
    }
  }
  if (!together) return;
  scatter_sums(block.totals, block.total_most, block.total_weight, n_queries, d,
               [&](int64_t r) { return &queries[r].total; });
}

}  // namespace LLM_ISA
}  // namespace llm
