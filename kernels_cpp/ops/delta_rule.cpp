// The gated delta rule (Yang et al. 2024, https://arxiv.org/abs/2412.06464). For each head a state
// S[key_dim][value_dim], and for each token: S *= exp(rate * softplus(decay + bias));
// S += k (v - k . S) sigmoid(beta); y = q . S / sqrt(key_dim), q and k divided by their lengths.
//
// Columns of S have nothing to do with each other. A task takes kWidth columns of a head through
// all tokens while they stay in the processor's first cache, one token after the other: a token has
// the same bits in a prompt and by itself. Sequences of a step go one after the other, too: one may
// go on from what the one before has left.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/simd.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

constexpr int kStateVectors = 32 / kWidth;  // that a task follows at once
constexpr int kStateColumns = kStateVectors * kWidth;
constexpr int64_t kRowsAhead = 16;  // rows that are fetched before they are read

struct DeltaShape {
  int64_t heads, key_heads, key_dim, value_dim;
  bool tiled;

  int64_t key_head(int64_t head) const {
    return tiled ? head % key_heads : head / (heads / key_heads);
  }
  int64_t blocks() const {
    return (value_dim + kStateColumns - 1) / kStateColumns;
  }  // of a head's columns
  int64_t padded() const { return (key_dim + kWidth - 1) / kWidth * kWidth; }
};

static DeltaShape delta_shape(const Op& op) {
  const auto& p = op.params.delta_rule;
  return {p.heads, p.key_heads, p.key_dim, p.value_dim, p.tiled};
}

// Values of kStateColumns columns, 0 where there are fewer.
struct Columns {
  F32 v[kStateVectors];
};

static Columns load_columns(const float* p, int64_t n) {
  Columns found = {};
  for (int i = 0; i < kStateVectors && i * kWidth < n; ++i) {
    const int64_t left = n - i * kWidth;
    found.v[i] = left >= kWidth ? load(p + i * kWidth) : load_part(p + i * kWidth, left);
  }
  return found;
}

static void store_columns(float* p, const Columns& values, int64_t n) {
  for (int i = 0; i < kStateVectors && i * kWidth < n; ++i) {
    const int64_t left = n - i * kWidth;
    if (left >= kWidth) {
      store(p + i * kWidth, values.v[i]);
    } else {
      store_part(p + i * kWidth, values.v[i], left);
    }
  }
}

// to[n] = x / sqrt(x . x + epsilon) * factor; the epsilon is the models' own
static void scale_to_length(const float* x, int64_t n, float factor, float* to) {
  const float scale = factor / std::sqrt(dot(x, x, n) + 1e-6f);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(to + i, load(x + i) * scale);
  for (; i < n; ++i) to[i] = x[i] * scale;
}

// log(1 + exp(x)), which is x where exp(x) is more than float32 holds
static float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

// Calls row(i, sums) for the rows 0 .. n of a state, even and odd ones with sums of their own, as
// additions take their time; returns both sums together.
template <typename Row>
static inline Columns sum_rows(int64_t n, const Row& row) {
  Columns even = {}, odd = {};
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    row(i, even);
    row(i + 1, odd);
  }
  if (i < n) row(i, even);
  for (int j = 0; j < kStateVectors; ++j) even.v[j] = even.v[j] + odd.v[j];
  return even;
}

// k . S
static Columns read_state(const float* state, const float* key, int64_t n) {
  return sum_rows(n, [&](int64_t i, Columns& sums) {
    for (int j = 0; j < kStateVectors; ++j) {
      sums.v[j] += load(state + i * kStateColumns + j * kWidth) * key[i];
    }
  });
}

// One token: S = S * kept + k change, and q . S
static Columns write_state(float* state, const float* key, const float* query, float kept,
                           const Columns& change, int64_t n) {
  return sum_rows(n, [&](int64_t i, Columns& sums) {
    for (int j = 0; j < kStateVectors; ++j) {
      float* const at = state + i * kStateColumns + j * kWidth;
      const F32 row = load(at) * kept + change.v[j] * key[i];
      store(at, row);
      sums.v[j] += row * query[i];
    }
  });
}

// `head`, and of its columns kStateColumns from `column` on, or `n`, through a sequence's tokens
static void follow(const Op& op, const Segment& segment, int64_t head, int64_t column, int64_t n,
                   float* scratch) {
  const DeltaShape shape = delta_shape(op);
  const int64_t d = shape.key_dim, keys = shape.key_heads * d;
  const Tensor &qkv = *op.in[0], &saved = *op.out[1];
  float* const state = scratch;
  float* const query = scratch + d * kStateColumns;
  float* const key = query + shape.padded();
  const auto row_of = [&](int64_t slot, int64_t i) {
    return row<float>(saved, (slot * shape.heads + head) * d + i) + column;
  };
  for (int64_t i = 0; i < d; ++i) {
    Columns before = {};
    if (segment.state >= 0) {
      __builtin_prefetch(row_of(segment.state, std::min(i + kRowsAhead, d - 1)));
      before = load_columns(row_of(segment.state, i), n);
    }
    store_columns(state + i * kStateColumns, before, kStateColumns);
  }
  const float rate = row<const float>(*op.in[3], 0)[head];
  const float bias = row<const float>(*op.in[4], 0)[head];
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  for (int64_t t = segment.first; t < segment.first + segment.count; ++t) {
    const float* const x = row<const float>(qkv, t) + shape.key_head(head) * d;
    scale_to_length(x, d, scale, query);
    scale_to_length(x + keys, d, 1.0f, key);
    const float kept = std::exp(rate * softplus(row<const float>(*op.in[1], t)[head] + bias));
    const float written = 1.0f / (1.0f + std::exp(-row<const float>(*op.in[2], t)[head]));
    const float* const value = row<const float>(qkv, t) + 2 * keys + head * shape.value_dim;
    const Columns read = read_state(state, key, d);
    Columns change = load_columns(value + column, n);
    for (int j = 0; j < kStateVectors; ++j) {
      change.v[j] = (change.v[j] - read.v[j] * kept) * written;
    }
    const Columns y = write_state(state, key, query, kept, change, d);
    store_columns(row<float>(*op.out[0], t) + head * shape.value_dim + column, y, n);
  }
  for (int64_t i = 0; i < d; ++i) {
    store_columns(row_of(segment.left, i), load_columns(state + i * kStateColumns, kStateColumns),
                  n);
  }
}

static void delta_rule(const Op& op, const Step& step, const Task& task) {
  const DeltaShape shape = delta_shape(op);
  const Range items = share(task, shape.heads * shape.blocks());
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t column = item % shape.blocks() * kStateColumns;
    const int64_t n = std::min<int64_t>(shape.value_dim - column, kStateColumns);
    for (int64_t i = 0; i < step.parts(); ++i) {
      follow(op, step.part(i), item / shape.blocks(), column, n,
             reinterpret_cast<float*>(task.scratch));
    }
  }
}

static int64_t delta_rule_tasks(const Op& op, const Step& step) {
  const DeltaShape shape = delta_shape(op);
  const int64_t items = shape.heads * shape.blocks(), wanted = 2 * step.workers;
  return items < wanted ? items : wanted;
}

static size_t delta_rule_scratch(const Op& op) {
  const DeltaShape shape = delta_shape(op);
  return (shape.key_dim * kStateColumns + 2 * shape.padded()) * sizeof(float);
}

const Kernel kDeltaRule = {delta_rule_tasks, delta_rule, delta_rule_scratch};

}  // namespace LLM_ISA
}  // namespace llm
