// Attention of many query rows that share keys: two matrix products a block of positions.
//
// Queries lie side by side in the lanes of vectors, so that a key's value is broadcast to all of
// them and softmax needs no sums over lanes. Running maximum and sum as in attention_rows.h.
#pragma once

#include "ops/attention_cache.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kBlock = 32;  // positions
constexpr int kMostVectors = 3;
constexpr int kTileRows = kWidth > 8 ? 8 : 4;  // times kMostVectors accumulators: fits registers
constexpr float kLowest = -3e38f;  // of no score yet: not infinite, so that 0 = kLowest - kLowest

// Of one task, as float32; queries are padded to kMaxQueries, d to whole vectors.
struct Block {
  float* queries;  // [d][kMaxQueries]
  float* keys;     // [kBlock][d]
  float* values;   // [kBlock][padded d]
  float* weights;  // [kBlock][kMaxQueries], scores at first
  float* sums;     // [padded d][kMaxQueries]
  float* most;     // [kMaxQueries], and so are the next
  float* weight;
  float* shrink;
  int32_t* begin;  // from the block's first position on
  int32_t* end;
  float softcap;        // 0: none
  const Query* biased;  // [n_queries]; null: no query has a bias
  int64_t n_queries;

  Block from(int64_t query) const {
    Block later = *this;
    if (biased != nullptr) later.biased += query;
    later.n_queries -= query;
    for (float** at :
         {&later.queries, &later.weights, &later.sums, &later.most, &later.weight, &later.shrink}) {
      *at += query;
    }
    later.begin += query;
    later.end += query;
    return later;
  }
};

inline int64_t block_floats(int64_t d) {
  return (2 * kMaxQueries + 2 * kBlock) * padded(d) + (kBlock + 5) * kMaxQueries;
}

inline Block block_in(float* memory, int64_t d) {
  const auto take = [&memory](int64_t n) {
    float* taken = memory;
    memory += n;
    return taken;
  };
  Block block = {};
  block.queries = take(padded(d) * kMaxQueries);
  block.sums = take(padded(d) * kMaxQueries);
  block.keys = take(kBlock * padded(d));
  block.values = take(kBlock * padded(d));
  block.weights = take(kBlock * kMaxQueries);
  block.most = take(kMaxQueries);
  block.weight = take(kMaxQueries);
  block.shrink = take(kMaxQueries);
  block.begin = reinterpret_cast<int32_t*>(take(kMaxQueries));
  block.end = reinterpret_cast<int32_t*>(take(kMaxQueries));
  return block;
}

// c[r][q] = c[r][q] * factor[q] + sum over k of a[r * row_stride + k * k_stride] * b[k][q]; without
// factors c is new. r < kTileRows, q < kVectors * kWidth; rows of b and c are kMaxQueries apart.
template <int kVectors>
inline void multiply(const float* a, int64_t row_stride, int64_t k_stride, const float* b,
                     int64_t n_k, const float* factor, float* c) {
  F32 totals[kTileRows][kVectors];
  for (int r = 0; r < kTileRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const float* at = c + r * kMaxQueries + v * kWidth;
      totals[r][v] = factor == nullptr ? F32{} : load(at) * load(factor + v * kWidth);
    }
  }
  for (int64_t k = 0; k < n_k; ++k) {
    F32 row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + k * kMaxQueries + v * kWidth);
    for (int r = 0; r < kTileRows; ++r) {
      const float factor_r = a[r * row_stride + k * k_stride];
      for (int v = 0; v < kVectors; ++v) totals[r][v] += row[v] * factor_r;
    }
  }
  for (int r = 0; r < kTileRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(c + r * kMaxQueries + v * kWidth, totals[r][v]);
  }
}

// Positions p .. p + n of a cache, none in the next page, each times its scale; `stride` apart, the
// rest of it 0.
template <typename T>
inline void unpack(const HeadRows<T>& rows, const Places& places, int64_t p, int64_t n, int64_t d,
                   int64_t stride, float* out) {
  int64_t r = places.row(p);
  for (int64_t i = 0; i < n; r = places.next_row(p + i, r), ++i, out += stride) {
    const T* row = rows.at(r);
    const float scale = rows.scale(r);
    int64_t c = 0;
    for (; c + kWidth <= d; c += kWidth) store(out + c, load(along(row, c)) * scale);
    for (; c < stride; ++c) out[c] = 0;
    const int64_t left = d % kWidth;
    if (left != 0) store_part(out + d - left, load_part(along(row, d - left), left) * scale, left);
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

// scores -> weights; factors by which what was gathered before shrinks
inline void weigh(const Block& block, int64_t n, int vectors) {
  for (int v = 0; v < vectors; ++v) {
    float* scores = block.weights + v * kWidth;
    const F32 before = load(block.most + v * kWidth);
    F32 most = before;
    for (int64_t i = 0; i < n; ++i) most = max(load(scores + i * kMaxQueries), most);
    const F32 shrink = exp(before - most);
    F32 weight = load(block.weight + v * kWidth) * shrink;
    for (int64_t i = 0; i < n; ++i) {
      const F32 score = load(scores + i * kMaxQueries);
      const F32 w = choose(score < kLowest, F32{}, exp(score - most));
      store(scores + i * kMaxQueries, w);
      weight += w;
    }
    store(block.most + v * kWidth, most);
    store(block.shrink + v * kWidth, shrink);
    store(block.weight + v * kWidth, weight);
  }
}

// n positions from p on, whose keys and values are unpacked
template <int kVectors>
inline void attend_block(const Block& block, int64_t p, int64_t n, int64_t d, bool masked) {
  for (int64_t i = 0; i < n; i += kTileRows) {
    multiply<kVectors>(block.keys + i * d, d, 1, block.queries, d, nullptr,
                       block.weights + i * kMaxQueries);
  }
  if (block.biased != nullptr) add_biases(block, p, n, kVectors);
  if (block.softcap > 0) {
    for (int64_t i = 0; i < n; ++i) {
      cap(block.weights + i * kMaxQueries, kVectors * kWidth, block.softcap);
    }
  }
  if (masked) mask(block, n, kVectors);
  weigh(block, n, kVectors);
  for (int64_t c = 0; c < d; c += kTileRows) {
    multiply<kVectors>(block.values + c, 1, padded(d), block.weights, n, block.shrink,
                       block.sums + c * kMaxQueries);
  }
}

inline void attend_block(const Block& block, int64_t p, int64_t n, int64_t d, bool masked) {
  int64_t query = 0;
  for (; block.n_queries - query > (kMostVectors - 1) * kWidth; query += kMostVectors * kWidth) {
    attend_block<kMostVectors>(block.from(query), p, n, d, masked);
  }
  if (block.n_queries - query > kWidth) {
    return attend_block<2>(block.from(query), p, n, d, masked);
  }
  if (block.n_queries > query) attend_block<1>(block.from(query), p, n, d, masked);
}

// Queries become columns.
inline void gather_queries(const Block& block, const Query* queries, int64_t n, int64_t d) {
  std::memset(block.sums, 0, padded(d) * kMaxQueries * sizeof(float));
  for (int64_t r = 0; r < n; r += kWidth) {
    store(block.most + r, broadcast(kLowest));
    store(block.weight + r, F32{});
    for (int64_t c = 0; c < d; c += kWidth) {
      F32 tile[kWidth];
      for (int i = 0; i < kWidth; ++i) tile[i] = r + i < n ? load(queries[r + i].q + c) : F32{};
      transpose(tile);
      for (int i = 0; i < kWidth; ++i) store(block.queries + (c + i) * kMaxQueries + r, tile[i]);
    }
  }
}

inline void scatter_sums(const Block& block, Query* queries, int64_t n, int64_t d) {
  for (int64_t r = 0; r < n; ++r) {
    queries[r].most = block.most[r];
    queries[r].weight = block.weight[r];
  }
  for (int64_t r = 0; r < n; r += kWidth) {
    for (int64_t c = 0; c < d; c += kWidth) {
      F32 tile[kWidth];
      for (int i = 0; i < kWidth; ++i) tile[i] = load(block.sums + (c + i) * kMaxQueries + r);
      transpose(tile);
      for (int64_t i = 0; i < kWidth && r + i < n; ++i) store(queries[r + i].sum + c, tile[i]);
    }
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

template <typename K, typename V>
inline void attend_blocks(Query* queries, int64_t n_queries, float* memory, const HeadRows<K>& keys,
                          const HeadRows<V>& values, const Places& places, int64_t d) {
  static_assert(kPage % kBlock == 0, "a block lies in one page");
  Block block = block_in(memory, d);
  block.softcap = queries[0].softcap;
  block.biased = queries[0].bias.row != nullptr ? queries : nullptr;
  block.n_queries = n_queries;
  gather_queries(block, queries, n_queries, d);
  const Seen seen = seen_by(queries, n_queries);
  // a row's result is the same whichever rows stand beside it
  for (int64_t p = seen.begin - seen.begin % kBlock; p < seen.end; p += kBlock) {
    const int64_t n = seen.end - p < kBlock ? seen.end - p : kBlock;
    unpack(keys, places, p, n, d, d, block.keys);
    unpack(values, places, p, n, d, padded(d), block.values);
    const bool masked = p < seen.all_begin || p + n > seen.all_end;
    if (masked) place(block, queries, n_queries, p, n);
    attend_block(block, p, n, d, masked);
  }
  scatter_sums(block, queries, n_queries, d);
}

}  // namespace LLM_ISA
}  // namespace llm
