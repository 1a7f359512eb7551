// y[T,H*d] = gain of the head * softmax(q.k * scale) . v, causal; with window > 0 only the last
// `window` positions
//
// Softmax in one pass over blocks of positions: running maximum and sum of each query row
// (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
#include <type_traits>

#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kPositions = 128;  // of a block
constexpr int64_t kTileTokens = 8;   // of a task, in prefill
constexpr size_t kLine = 64;         // bytes of a cache line
constexpr int64_t kMaxQueries = 64;  // query rows of a task: tokens x heads that share keys

struct Shape {
  int64_t heads, kv_heads, head_dim, window;
  float scale;
  int64_t group() const { return heads / kv_heads; }
};

static Shape shape_of(const Op& op) {
  return {static_cast<int64_t>(op.params[0]), static_cast<int64_t>(op.params[1]),
          static_cast<int64_t>(op.params[2]), static_cast<int64_t>(op.params[4]),
          static_cast<float>(op.params[3])};
}

static int64_t padded(int64_t n) { return (n + kWidth - 1) / kWidth * kWidth; }

// How an op is cut into tasks: a task has some tokens, and one or all heads of a group.
struct Tiling {
  int64_t tokens, heads, token_tiles, head_tiles;
};

static Tiling tiling_of(const Op& op, const Step& step) {
  const Shape shape = shape_of(op);
  const int64_t tokens = step.n_tokens < kTileTokens ? step.n_tokens : kTileTokens;
  const int64_t token_tiles = (step.n_tokens + tokens - 1) / tokens;
  const bool few = shape.kv_heads * token_tiles < 4 * step.workers;
  const int64_t heads = few || tokens * shape.group() > kMaxQueries ? 1 : shape.group();
  return {tokens, heads, token_tiles, shape.heads / heads};
}

static int64_t attention_tasks(const Op& op, const Step& step) {
  const Tiling tiling = tiling_of(op, step);
  return tiling.token_tiles * tiling.head_tiles;
}

// One query row and what it has gathered so far.
struct Query {
  float* q;    // [padded d], scaled
  float* sum;  // [padded d], weighted values
  float* out;  // [d]
  float most, weight, gain;
  int64_t begin, end;  // the positions it sees
};

struct Work {
  Query queries[kMaxQueries];
  alignas(64) float scores[kPositions];
};

// A head's rows of one cache, as T; int8 has a scale a row.
template <typename T>
struct HeadRows {
  const uint8_t* first;  // the head's values in row 0
  int64_t stride;        // bytes from row to row
  int64_t to_scale;      // bytes from a row's values to its scale

  const T* at(int64_t i) const { return reinterpret_cast<const T*>(first + i * stride); }
  HeadRows from(int64_t i) const { return {first + i * stride, stride, to_scale}; }
  void scale(float* factors, int64_t n) const {
    if constexpr (std::is_same<T, int8_t>::value) {
      for (int64_t i = 0; i < n; ++i) {
        Half half;
        std::memcpy(&half, first + i * stride + to_scale, sizeof half);
        factors[i] *= to_float(half);
      }
    }
  }
};

template <typename T>
static HeadRows<T> head_rows(const Tensor& cache, int64_t group, int64_t d) {
  const int64_t column = group * d * static_cast<int64_t>(sizeof(T));
  return {cache.data + column, row_bytes(cache), cache.n_cols + 2 * group - column};
}

// Rows of one head lie too far apart for the processor to guess the next.
template <typename T>
static void prefetch_rows(const HeadRows<T>& rows, int64_t first, int64_t n, int64_t d) {
  for (int64_t i = first; i < first + n; ++i) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(rows.at(i));
    for (size_t at = 0; at < d * sizeof(T); at += kLine) __builtin_prefetch(bytes + at);
  }
}

// scores[i] = q . key[i]; where the rows are not in the cache yet, these positions' values and the
// next keys are on their way then.
template <typename K, typename V>
static void score(const Query& query, const HeadRows<K>& keys, const HeadRows<V>& values, int64_t n,
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
static void weigh(Query& query, int64_t n, int64_t d, float* scores) {
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
static void gather_columns(const float* weights, const HeadRows<T>& values, int64_t c, int64_t n,
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
static void gather(float* weights, const HeadRows<T>& values, int64_t n, int64_t d, float* sum) {
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
static void attend_run(Work& work, Query& query, const HeadRows<K>& keys, const HeadRows<V>& values,
                       int64_t ring, int64_t first, int64_t last, int64_t d, bool cold) {
  while (first < last) {
    const int64_t row = first % ring;
    const int64_t n = last - first < ring - row ? last - first : ring - row;
    score(query, keys.from(row), values.from(row), n, d, cold, work.scores);
    weigh(query, n, d, work.scores);
    gather(work.scores, values.from(row), n, d, query.sum);
    first += n;
  }
}

template <typename K, typename V>
static void attend(Work& work, int64_t n_queries, const HeadRows<K>& keys,
                   const HeadRows<V>& values, int64_t ring, int64_t d) {
  int64_t begin = work.queries[0].begin, end = work.queries[0].end;
  for (int64_t r = 1; r < n_queries; ++r) {
    begin = work.queries[r].begin < begin ? work.queries[r].begin : begin;
    end = work.queries[r].end > end ? work.queries[r].end : end;
  }
  for (int64_t p = begin; p < end; p += kPositions) {
    for (int64_t r = 0; r < n_queries; ++r) {
      Query& query = work.queries[r];
      const int64_t first = query.begin > p ? query.begin : p;
      const int64_t last = query.end < p + kPositions ? query.end : p + kPositions;
      attend_run(work, query, keys, values, ring, first, last, d, r == 0);
    }
  }
}

static Query start_query(const Op& op, const Step& step, int64_t token, int64_t head,
                         float* memory) {
  const Shape shape = shape_of(op);
  const int64_t d = shape.head_dim, end = step.start + token + 1;
  const int64_t begin = shape.window > 0 && end > shape.window ? end - shape.window : 0;
  const float* q = row<const float>(*op.in[0], token) + head * d;
  float* out = row<float>(*op.out[0], token) + head * d;
  const float gain = row<const float>(*op.in[3], static_cast<int64_t>(op.params[5]))[head];
  Query query = {memory, memory + padded(d), out, -__builtin_inff(), 0, gain, begin, end};
  std::memset(memory, 0, 2 * padded(d) * sizeof(float));
  for (int64_t i = 0; i < d; ++i) query.q[i] = q[i] * shape.scale;
  return query;
}

static void finish_query(const Query& query, int64_t d) {
  for (int64_t i = 0; i < d; ++i) query.out[i] = query.sum[i] / query.weight * query.gain;
}

// Calls run with a value of the type that a cache's values have.
template <typename Run>
static void with_type(DType dtype, const Run& run) {
  if (dtype == DType::kF16) return run(Half{});
  if (dtype == DType::kI8) return run(int8_t{});
  run(float{});
}

static void attention(const Op& op, const Step& step, const Task& task) {
  const Shape shape = shape_of(op);
  const Tiling tiling = tiling_of(op, step);
  const int64_t d = shape.head_dim;
  const int64_t head = task.index % tiling.head_tiles * tiling.heads;
  const int64_t token = task.index / tiling.head_tiles * tiling.tokens;
  const int64_t left = step.n_tokens - token, tokens = left < tiling.tokens ? left : tiling.tokens;
  Work& work = *reinterpret_cast<Work*>(task.scratch);
  auto* memory = reinterpret_cast<float*>(task.scratch + sizeof(Work));
  int64_t n = 0;
  for (int64_t h = head; h < head + tiling.heads; ++h) {
    for (int64_t t = token; t < token + tokens; ++t, ++n) {
      work.queries[n] = start_query(op, step, t, h, memory + n * 2 * padded(d));
    }
  }
  const Tensor &keys = *op.in[1], &values = *op.in[2];
  const int64_t group = head / shape.group();
  with_type(keys.dtype, [&](auto k) {
    with_type(values.dtype, [&](auto v) {
      attend(work, n, head_rows<decltype(k)>(keys, group, d),
             head_rows<decltype(v)>(values, group, d), keys.n_rows, d);
    });
  });
  for (int64_t r = 0; r < n; ++r) finish_query(work.queries[r], d);
}

static size_t attention_scratch(const Op& op) {
  return sizeof(Work) + kMaxQueries * 2 * padded(shape_of(op).head_dim) * sizeof(float);
}

const Kernel kAttention = {attention_tasks, attention, attention_scratch};

}  // namespace LLM_ISA
}  // namespace llm
