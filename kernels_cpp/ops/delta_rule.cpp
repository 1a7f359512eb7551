// The gated delta rule (Yang et al. 2024, https://arxiv.org/abs/2412.06464). For each head a state
// S[key_dim][value_dim], and for each token: S *= exp(rate * softplus(decay + bias));
// S += k (v - k . S) sigmoid(beta); y = q . S / sqrt(key_dim), q and k divided by their lengths.
//
// Columns of S have nothing to do with each other. A task takes kWidth columns of a head through
// all tokens while they stay in the processor's first cache, one token after the other: a token has
// the same bits in a prompt and by itself. Sequences of a step go one after the other, too: one may
// go on from what the one before has left.
#include <cmath>
#include <cstring>

#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

struct DeltaShape {
  int64_t heads, key_heads, key_dim, value_dim;
  bool tiled;

  int64_t key_head(int64_t head) const {
    return tiled ? head % key_heads : head / (heads / key_heads);
  }
  int64_t blocks() const { return (value_dim + kWidth - 1) / kWidth; }  // of columns of a head
  int64_t padded() const { return (key_dim + kWidth - 1) / kWidth * kWidth; }
};

static DeltaShape delta_shape(const Op& op) {
  const auto& p = op.params.delta_rule;
  return {p.heads, p.key_heads, p.key_dim, p.value_dim, p.tiled};
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

// k . S, or q . S, of kWidth columns; sums of four rows each in turn, as additions take their time
static F32 read_state(const float* state, const float* key, int64_t n) {
  F32 sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int j = 0; j < 4; ++j) sums[j] += load(state + (i + j) * kWidth) * key[i + j];
  }
  for (; i < n; ++i) sums[0] += load(state + i * kWidth) * key[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// One token: S = S * kept + k change, and q . S
static F32 write_state(float* state, const float* key, const float* query, float kept, F32 change,
                       int64_t n) {
  F32 sums[4] = {};
  const auto update = [&](int64_t i, F32& sum) {
    const F32 row = load(state + i * kWidth) * kept + change * key[i];
    store(state + i * kWidth, row);
    sum += row * query[i];
  };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int j = 0; j < 4; ++j) update(i + j, sums[j]);
  }
  for (; i < n; ++i) update(i, sums[0]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// `head`, and of its columns kWidth from `column` on, or `n`, through a sequence's tokens
static void follow(const Op& op, const Segment& segment, int64_t head, int64_t column, int64_t n,
                   float* scratch) {
  const DeltaShape shape = delta_shape(op);
  const int64_t d = shape.key_dim, keys = shape.key_heads * d;
  const Tensor &qkv = *op.in[0], &saved = *op.out[1];
  float* const state = scratch;
  float* const query = scratch + d * kWidth;
  float* const key = query + shape.padded();
  const auto row_of = [&](int64_t slot, int64_t i) {
    return row<float>(saved, (slot * shape.heads + head) * d + i) + column;
  };
  for (int64_t i = 0; i < d; ++i) {
    store(state + i * kWidth, segment.state < 0 ? F32{} : load_part(row_of(segment.state, i), n));
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
    const float* const value =
        row<const float>(qkv, t) + 2 * keys + head * shape.value_dim + column;
    const F32 read = read_state(state, key, d) * kept;
    const F32 change = (load_part(value, n) - read) * written;
    const F32 y = write_state(state, key, query, kept, change, d);
    store_part(row<float>(*op.out[0], t) + head * shape.value_dim + column, y, n);
  }
  for (int64_t i = 0; i < d; ++i) {
    store_part(row_of(segment.left, i), load(state + i * kWidth), n);
  }
}

static void delta_rule(const Op& op, const Step& step, const Task& task) {
  const DeltaShape shape = delta_shape(op);
  const Range items = share(task, shape.heads * shape.blocks());
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t column = item % shape.blocks() * kWidth, left = shape.value_dim - column;
    for (int64_t i = 0; i < step.parts(); ++i) {
      follow(op, step.part(i), item / shape.blocks(), column, left < kWidth ? left : kWidth,
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
  return (shape.key_dim * kWidth + 2 * shape.padded()) * sizeof(float);
}

const Kernel kDeltaRule = {delta_rule_tasks, delta_rule, delta_rule_scratch};

}  // namespace LLM_ISA
}  // namespace llm
