// y[T,H*d] = gain of the head * softmax(q.k * scale) . v, causal; with window > 0 only the last
// `window` positions; with softcap > 0 of softcap * tanh(score / softcap); a head's sink is one
// score more, without a value
#include "ops/attention_block.h"
#include "ops/attention_rows.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kSplitTokens = 4;  // a step of so few is cut along the positions too
constexpr int64_t kSplitTasks = 16;  // that are enough for all threads
constexpr int64_t kMaxSplits = 16;

// How an op is cut into tasks: a task has some tokens, one or all heads of a group, and all
// positions or one of `splits` parts of them (Dao et al. 2023, "Flash-Decoding").
struct Tiling {
  int64_t tokens, heads, token_tiles, head_tiles, splits;
};

// The splits do not depend on the number of threads: a step gives the same bits on any.
static Tiling tiling_of(const Op& op, const Step& step) {
  const Shape shape = shape_of(op);
  const bool together = shape.group() <= kMaxQueries;
  const int64_t most = together ? kMaxQueries / shape.group() : kMaxQueries;
  const int64_t tokens = step.n_tokens < most ? step.n_tokens : most;
  const int64_t token_tiles = (step.n_tokens + tokens - 1) / tokens;
  if (together && step.n_tokens <= kSplitTokens && token_tiles == 1) {
    const int64_t wanted = (kSplitTasks + shape.kv_heads - 1) / shape.kv_heads;
    int64_t splits = (step.start + step.n_tokens) / kPositions;
    splits = splits < wanted ? splits : wanted;
    splits = splits < kMaxSplits ? splits : kMaxSplits;
    if (splits > 1) return {tokens, shape.group(), 1, shape.kv_heads, splits};
  }
  const bool few = shape.kv_heads * token_tiles < 4 * step.workers;
  const int64_t heads = few || !together ? 1 : shape.group();
  return {tokens, heads, token_tiles, shape.heads / heads, 1};
}

static int64_t attention_tasks(const Op& op, const Step& step) {
  const Tiling tiling = tiling_of(op, step);
  return tiling.token_tiles * tiling.head_tiles * tiling.splits;
}

// The score that a head spends its attention on when it looks nowhere; none: it weighs nothing.
static float sink_of(const Op& op, int64_t head) {
  return op.in[4] == nullptr ? -__builtin_inff() : row<const float>(*op.in[4], 0)[head];
}

// Of scores whose largest is `most`, all weights relative to e^most, that of the sink among them.
static float with_sink(float weight, float most, float sink) {
  return weight + __builtin_expf(sink - most);  // infinite where the sink takes all
}

static Query start_query(const Op& op, const Step& step, int64_t token, int64_t head,
                         float* memory) {
  const Shape shape = shape_of(op);
  const int64_t d = shape.head_dim, end = step.start + token + 1;
  const int64_t begin = shape.window > 0 && end > shape.window ? end - shape.window : 0;
  const float* q = row<const float>(*op.in[0], token) + head * d;
  float* out = row<float>(*op.out[0], token) + head * d;
  const float gain = row<const float>(*op.in[3], op.params.attention.layer)[head];
  Query query = {memory,
                 memory + padded(d),
                 out,
                 -__builtin_inff(),
                 0,
                 gain,
                 shape.softcap,
                 sink_of(op, head),
                 begin,
                 end};
  std::memset(memory, 0, 2 * padded(d) * sizeof(float));
  for (int64_t i = 0; i < d; ++i) query.q[i] = q[i] * shape.scale;
  return query;
}

// What a part of the positions leaves of a query: [splits][tokens][heads] of these.
struct Part {
  float most, weight;
  float sum[1];  // [d]
};

static size_t part_bytes(int64_t d) { return sizeof(float) * (2 + d); }

static void store_part_of(const Query& query, int64_t d, uint8_t* at) {
  Part& part = *reinterpret_cast<Part*>(at);
  part.most = query.most;
  part.weight = query.weight;
  std::memcpy(part.sum, query.sum, d * sizeof(float));
}

// Parts are added in their order, so that a step gives the same bits each time.
static void finish(const Op& op, const Step& step, const uint8_t* shared) {
  const Shape shape = shape_of(op);
  const Tiling tiling = tiling_of(op, step);
  if (tiling.splits == 1) return;
  const int64_t d = shape.head_dim, n = step.n_tokens * shape.heads;
  const float* gains = row<const float>(*op.in[3], op.params.attention.layer);
  for (int64_t i = 0; i < n; ++i) {
    const auto part = [&](int64_t split) {
      return reinterpret_cast<const Part*>(shared + (split * n + i) * part_bytes(d));
    };
    float most = -__builtin_inff();
    for (int64_t s = 0; s < tiling.splits; ++s) most = part(s)->most > most ? part(s)->most : most;
    float shares[kMaxSplits], weight = 0;
    for (int64_t s = 0; s < tiling.splits; ++s) {  // a part may see nothing: most is -infinity
      shares[s] = part(s)->weight > 0 ? exp(broadcast(part(s)->most - most))[0] : 0;
      weight += part(s)->weight * shares[s];
    }
    weight = with_sink(weight, most, sink_of(op, i % shape.heads));
    float* out = row<float>(*op.out[0], i / shape.heads) + i % shape.heads * d;
    std::memset(out, 0, d * sizeof(float));
    for (int64_t s = 0; s < tiling.splits; ++s) {
      for (int64_t c = 0; c < d; ++c) out[c] += part(s)->sum[c] * shares[s];
    }
    for (int64_t c = 0; c < d; ++c) out[c] = out[c] / weight * gains[i % shape.heads];
  }
}

static size_t shared_bytes(const Op& op) {
  const Shape shape = shape_of(op);
  return kMaxSplits * kSplitTokens * shape.heads * part_bytes(shape.head_dim);
}

static void finish_query(const Query& query, int64_t d) {
  const float weight = with_sink(query.weight, query.most, query.sink);
  for (int64_t i = 0; i < d; i += kWidth) {
    const F32 values = load(query.sum + i) / weight * query.gain;
    if (d - i >= kWidth) {
      store(query.out + i, values);
    } else {
      store_part(query.out + i, values, d - i);
    }
  }
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
  const int64_t split = task.index % tiling.splits, tile = task.index / tiling.splits;
  const int64_t head = tile % tiling.head_tiles * tiling.heads;
  const int64_t later = tiling.token_tiles - 1 - tile / tiling.head_tiles;  // long ones first
  const int64_t token = later * tiling.tokens;
  const int64_t left = step.n_tokens - token, tokens = left < tiling.tokens ? left : tiling.tokens;
  auto* memory = reinterpret_cast<float*>(task.scratch);
  float* const rest = memory + kMaxQueries * 2 * padded(d);
  Query queries[kMaxQueries];
  int64_t n = 0;
  for (int64_t h = head; h < head + tiling.heads; ++h) {
    for (int64_t t = token; t < token + tokens; ++t, ++n) {
      Query& query = queries[n] = start_query(op, step, t, h, memory + n * 2 * padded(d));
      if (tiling.splits == 1) continue;
      const int64_t length = query.end - query.begin, first = query.begin;
      query.begin = first + length * split / tiling.splits;
      query.end = first + length * (split + 1) / tiling.splits;
    }
  }
  const Tensor &keys = *op.in[1], &values = *op.in[2];
  const int64_t group = head / shape.group();
  with_type(keys.dtype, [&](auto k) {
    with_type(values.dtype, [&](auto v) {
      const auto attend = tokens > 1 || n > kFewRows ? attend_blocks<decltype(k), decltype(v)>
                                                     : attend_rows<decltype(k), decltype(v)>;
      attend(queries, n, rest, head_rows<decltype(k)>(keys, group, d),
             head_rows<decltype(v)>(values, group, d), keys.n_rows, d);
    });
  });
  for (int64_t r = 0; r < n; ++r) {
    if (tiling.splits == 1) {
      finish_query(queries[r], d);
    } else {
      const int64_t h = head + r / tokens, t = token + r % tokens;
      const int64_t index = (split * step.n_tokens + t) * shape.heads + h;
      store_part_of(queries[r], d, task.shared + index * part_bytes(d));
    }
  }
}

static size_t attention_scratch(const Op& op) {
  const int64_t d = shape_of(op).head_dim;
  return (kMaxQueries * 2 * padded(d) + block_floats(d) + kFewRows * kPositions) * sizeof(float);
}

const Kernel kAttention = {attention_tasks, attention, attention_scratch, shared_bytes, finish};

}  // namespace LLM_ISA
}  // namespace llm
