// The memory of a task that attends to blocks: queries and what they gather, a query a lane.
#pragma once

#include "ops/attention_parts.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kBlock = 32;  // positions that are unpacked at a time
constexpr int kMostVectors = 3;
// Columns of values that meet kMostVectors vectors of weights: their sums fit registers
constexpr int kValueColumns = kWidth > 8 ? 8 : 4;

// As float32; queries are padded to kMaxQueries, d to whole vectors.
struct Block {
  float* queries;  // [padded d][kMaxQueries]
  float* keys;     // [kBlock][d]
  float* values;   // [kBlock][padded d]
  float* weights;  // [kPositions][kMaxQueries], scores at first
  float* sums;     // [padded d][kMaxQueries], of a part
  float* totals;   // likewise, of all parts before
  float* most;     // [kMaxQueries], and so are the next
  float* weight;
  float* shrink;
  float* total_most;
  float* total_weight;
  int32_t* begin;  // from the chunk's first position on
  int32_t* end;
  float* key_scales;    // [kBlock]
  float* value_scales;  // [kPositions]; null: they have none
  // Of int4 keys that meet queries as digits (attention_nibbles.h):
  int32_t* digits;        // [padded d / 4][kDigits][kMaxQueries], four columns each
  int32_t* digits_begin;  // [kDigits][kMaxQueries]
  float* digits_rest;     // [kMaxQueries]
  float* digits_step;     // [kMaxQueries]
  float softcap;          // 0: none
  const Query* biased;    // [n_queries]; null: no query has a bias
  int64_t n_queries;

  Block from(int64_t query) const {
    Block later = *this;
    if (biased != nullptr) later.biased += query;
    later.n_queries -= query;
    for (float** at : {&later.queries, &later.weights, &later.sums, &later.totals, &later.most,
                       &later.weight, &later.shrink, &later.total_most, &later.total_weight,
                       &later.digits_rest, &later.digits_step}) {
      *at += query;
    }
    for (int32_t** at : {&later.begin, &later.end, &later.digits, &later.digits_begin}) {
      *at += query;
    }
    return later;
  }
};

inline int64_t block_floats(int64_t d) {
  constexpr int64_t kOfQueries = 3, kLines = 5 + 2 + kDigits + 2;
  const int64_t digits = padded(d) / 4 * kDigits;
  return (kOfQueries * padded(d) + kPositions + kLines + digits) * kMaxQueries +
         2 * kBlock * padded(d) + kBlock + kPositions;
}

inline Block block_in(float* memory, int64_t d) {
  const auto take = [&memory](int64_t n) {
    float* taken = memory;
    memory += n;
    return taken;
  };
  const auto take_integers = [&](int64_t n) { return reinterpret_cast<int32_t*>(take(n)); };
  Block block = {};
  block.queries = take(padded(d) * kMaxQueries);
  block.sums = take(padded(d) * kMaxQueries);
  block.totals = take(padded(d) * kMaxQueries);
  block.weights = take(kPositions * kMaxQueries);
  for (float** line : {&block.most, &block.weight, &block.shrink, &block.total_most,
                       &block.total_weight, &block.digits_rest, &block.digits_step}) {
    *line = take(kMaxQueries);
  }
  block.begin = take_integers(kMaxQueries);
  block.end = take_integers(kMaxQueries);
  block.digits_begin = take_integers(kDigits * kMaxQueries);
  block.digits = take_integers(padded(d) / 4 * kDigits * kMaxQueries);
  block.keys = take(kBlock * padded(d));
  block.values = take(kBlock * padded(d));
  block.key_scales = take(kBlock);
  block.value_scales = take(kPositions);
  return block;
}

// Queries become columns.
inline void gather_queries(const Block& block, const Query* queries, int64_t n, int64_t d) {
  for (int64_t r = 0; r < n; r += kWidth) {
    for (int64_t c = 0; c < d; c += kWidth) {
      F32 tile[kWidth];
      for (int i = 0; i < kWidth; ++i) tile[i] = r + i < n ? load(queries[r + i].q + c) : F32{};
      transpose(tile);
      for (int i = 0; i < kWidth; ++i) store(block.queries + (c + i) * kMaxQueries + r, tile[i]);
    }
  }
}

inline void begin_sums(const Block& block, float* sums, float* most, float* weight, int64_t d) {
  for (int64_t r = 0; r < block.n_queries; r += kWidth) {
    store(most + r, broadcast(kLowest));
    store(weight + r, F32{});
    for (int64_t c = 0; c < padded(d); ++c) store(sums + c * kMaxQueries + r, F32{});
  }
}

// The part's sums join the totals.
inline void add_part(const Block& block, int64_t d) {
  for (int64_t r = 0; r < block.n_queries; r += kWidth) {
    const Joining how = joining(load(block.total_most + r), load(block.most + r));
    for (int64_t c = r; c < d * kMaxQueries; c += kMaxQueries) {
      store(block.totals + c, join(load(block.totals + c), load(block.sums + c), how));
    }
    float* weight = block.total_weight + r;
    store(weight, join(load(weight), load(block.weight + r), how));
    store(block.total_most + r, how.most);
  }
}

// to(r): where query r has its own
template <typename To>
inline void scatter_sums(const float* sums, const float* most, const float* weight, int64_t n,
                         int64_t d, const To& to) {
  for (int64_t r = 0; r < n; ++r) {
    to(r)->most = most[r];
    to(r)->weight = weight[r];
  }
  for (int64_t r = 0; r < n; r += kWidth) {
    for (int64_t c = 0; c < d; c += kWidth) {
      F32 tile[kWidth];
      for (int i = 0; i < kWidth; ++i) tile[i] = load(sums + (c + i) * kMaxQueries + r);
      transpose(tile);
      for (int64_t i = 0; i < kWidth && r + i < n; ++i) store(to(r + i)->values + c, tile[i]);
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
