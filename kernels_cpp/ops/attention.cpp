// y[T,H*d] = gain of the head * softmax(q.k * scale + bias by distance) . v, causal, of all
// positions (bidirectional) or of a source's (cross); with window > 0 only the last `window`
// positions; with softcap > 0 of softcap * tanh(score / softcap); a head's sink is one score more,
// without a value. Of a shared step each segment is attended to by itself.
#include <algorithm>

#include "ops/attention_block.h"
#include "ops/attention_rows.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kSplitTokens = 4;  // a step of so few is cut along the positions too
constexpr int64_t kSplitTasks = 16;  // that are enough for all threads
constexpr int64_t kMaxSplits = 32;
constexpr int64_t kGranule = 16;               // positions that stay together
constexpr int64_t kStreamed = 8 * kPositions;  // from so many on a token's cache is one stream
constexpr int64_t kSharedTasksPerWorker = 16;  // at most, of a shared step

// How a segment is cut into tiles: a tile has some tokens, one or more heads, and all positions or
// one of `splits` parts of them (Dao et al. 2023, "Flash-Decoding").
struct Tiling {
  int64_t tokens, heads, token_tiles, head_tiles, splits;
  int64_t tiles() const { return token_tiles * head_tiles * splits; }
};

// Positions that queries of a segment see, or would without a window or an order.
static int64_t length_of(const Shape& shape, const Step& step, const Segment& segment) {
  return shape.cross ? step.source : segment.kv_length();
}

// Heads of as many whole groups as fit one tile, as many in each.
static int64_t streamed_heads(const Shape& shape) {
  int64_t tiles = 1;
  while (shape.kv_heads % tiles != 0 || shape.heads / tiles > kMaxQueries) ++tiles;
  return shape.heads / tiles;
}

// Parts of the positions of a few tokens, if any. A token's many positions are read in one stream
// by all its heads. Neither the number of threads nor other segments count: a step gives the same
// bits on any, a segment in any step.
static Tiling split_tiling(const Shape& shape, int64_t tokens, int64_t length) {
  const int64_t seen = shape.window > 0 && shape.window < length ? shape.window : length;
  int64_t splits = seen / kPositions;
  if (tokens == 1 && shape.group() <= kFewRows && seen >= kStreamed) {
    const int64_t heads = streamed_heads(shape), long_ones = seen / (2 * kPositions);
    splits = std::min(long_ones > kSplitTasks ? long_ones : kSplitTasks, kMaxSplits);
    return {1, heads, 1, shape.heads / heads, splits};
  }
  const int64_t wanted = (kSplitTasks + shape.kv_heads - 1) / shape.kv_heads;
  splits = splits < wanted ? splits : wanted;
  return {tokens, shape.group(), 1, shape.kv_heads, splits};
}

static Tiling tiling_of(const Op& op, const Step& step, const Segment& segment) {
  const Shape shape = shape_of(op);
  const bool together = shape.group() <= kMaxQueries;
  const int64_t most = together ? kMaxQueries / shape.group() : kMaxQueries;
  const int64_t tokens = segment.count < most ? segment.count : most;
  const int64_t token_tiles = (segment.count + tokens - 1) / tokens;
  const int64_t may_split = step.shared() ? 1 : kSplitTokens;
  if (together && segment.count <= may_split && token_tiles == 1) {
    const Tiling split = split_tiling(shape, tokens, length_of(shape, step, segment));
    if (split.splits > 1) return split;
  }
  // A drafted token is cut as it would be alone where heads together are blocks, which sum in
  // another order: see by_blocks
  const bool as_alone = step.stepwise && shape.group() > kFewRows;
  const int64_t parts = as_alone ? 1 : step.parts();
  const bool few = shape.kv_heads * token_tiles * parts < 4 * step.workers;
  const int64_t heads = few || !together ? 1 : shape.group();
  return {tokens, heads, token_tiles, shape.heads / heads, 1};
}

// Of all segments
static int64_t tiles_of(const Op& op, const Step& step) {
  int64_t tiles = 0;
  for (int64_t i = 0; i < step.parts(); ++i) tiles += tiling_of(op, step, step.part(i)).tiles();
  return tiles;
}

// Many short segments have many tiles: a task takes several, as it must look for the first.
static int64_t attention_tasks(const Op& op, const Step& step) {
  const int64_t tiles = tiles_of(op, step), most = kSharedTasksPerWorker * step.workers;
  return step.shared() && tiles > most ? most : tiles;
}

// Whether rows of queries become blocks. In a shared step a token's result depends on its segment
// only by whether it is alone in it: neither on the tile that it falls into nor on the threads.
static bool by_blocks(const Shape& shape, const Step& step, const Segment& segment, int64_t tokens,
                      int64_t queries) {
  if (step.shared()) return segment.count > 1 || shape.group() > kFewRows;
  return tokens > 1 || queries > kFewRows;
}

constexpr float kNoSink = -__builtin_inff();  // weighs nothing

// The score that a head spends its attention on when it looks nowhere.
static float sink_of(const Op& op, int64_t head) {
  return op.in[4] == nullptr ? kNoSink : row<const float>(*op.in[4], 0)[head];
}

// Of scores whose largest is `most`, all weights relative to e^most, that of the sink among them.
static float with_sink(float weight, float most, float sink) {
  if (sink == kNoSink) return weight;
  return weight + __builtin_expf(sink - most);  // infinite where the sink takes all
}

// Of a head's query at a position.
static Bias bias_of(const Op& op, int64_t head, int64_t position) {
  const Tensor* bias = op.in[5];
  if (bias == nullptr) return {};
  return {row<const float>(*bias, head), bias->n_cols, op.params.attention.bias_before - position};
}

static Query start_query(const Op& op, const Step& step, const Segment& segment, int64_t token,
                         int64_t head, float* memory) {
  const Shape shape = shape_of(op);
  const int64_t d = shape.head_dim, position = segment.start + token - segment.first;
  const bool all = shape.bidirectional || shape.cross;
  const int64_t end = all ? length_of(shape, step, segment) : position + 1;
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
                 end,
                 bias_of(op, head, position)};
  int64_t i = 0;
  for (; i + kWidth <= d; i += kWidth) store(query.q + i, load(q + i) * shape.scale);
  if (i < d) store(query.q + i, load_part(q + i, d - i) * shape.scale);
  if (op.in[1]->dtype == DType::kI4) rotate_back(query.q, d);
  std::memset(query.sum, 0, padded(d) * sizeof(float));
  return query;
}

// Of a query's positions one of `splits` parts, in whole vectors.
static void take_part(Query& query, int64_t split, int64_t splits) {
  const int64_t first = query.begin, length = query.end - first;
  const auto edge = [&](int64_t of) {
    return of == splits ? query.end : first + length * of / splits / kGranule * kGranule;
  };
  query.begin = edge(split);
  query.end = edge(split + 1);
}

// What a part of the positions leaves of a query.
struct Part {
  float most, weight;
  float sum[1];  // [d]
};

static size_t part_bytes(int64_t d) { return sizeof(float) * (2 + d); }

// Parts of a step: [segments][kMaxSplits][tokens of a segment][heads]. Segments whose positions
// are split have one token where several share a step.
static int64_t part_index(const Shape& shape, const Segment& segment, int64_t of_segment,
                          int64_t split, int64_t token) {
  return ((of_segment * kMaxSplits + split) * segment.count + token) * shape.heads;
}

static void store_part_of(const Query& query, int64_t d, uint8_t* at) {
  Part& part = *reinterpret_cast<Part*>(at);
  part.most = query.most;
  part.weight = query.weight;
  std::memcpy(part.sum, query.sum, d * sizeof(float));
}

// Parts are added in their order, so that a step gives the same bits each time.
static void finish_segment(const Op& op, const Segment& segment, int64_t of_segment, int64_t splits,
                           const uint8_t* shared) {
  const Shape shape = shape_of(op);
  const int64_t d = shape.head_dim, n = segment.count * shape.heads;
  const float* gains = row<const float>(*op.in[3], op.params.attention.layer);
  for (int64_t i = 0; i < n; ++i) {
    const auto part = [&](int64_t split) {
      const int64_t index = part_index(shape, segment, of_segment, split, 0) + i;
      return reinterpret_cast<const Part*>(shared + index * part_bytes(d));
    };
    float shares[kMaxSplits], weights[kMaxSplits];
    float most = -__builtin_inff(), weight = 0;
    for (int64_t s = 0; s < splits; ++s) {  // a part may see nothing: its most is -infinity
      shares[s] = part(s)->most;
      weights[s] = part(s)->weight;
      most = shares[s] > most ? shares[s] : most;
    }
    for (int64_t s = splits; s < kMaxSplits; ++s) shares[s] = weights[s] = 0;
    for (int64_t s = 0; s < kMaxSplits; s += kWidth) {
      const F32 weighed = load(weights + s);
      const F32 share = choose(weighed > 0.0f, exp(load(shares + s) - most), F32{});
      store(shares + s, share);
      weight += sum(weighed * share);
    }
    weight = with_sink(weight, most, sink_of(op, i % shape.heads));
    float* out = row<float>(*op.out[0], segment.first + i / shape.heads) + i % shape.heads * d;
    std::memset(out, 0, d * sizeof(float));
    for (int64_t s = 0; s < splits; ++s) {
      for (int64_t c = 0; c < d; ++c) out[c] += part(s)->sum[c] * shares[s];
    }
    if (op.in[2]->dtype == DType::kI4) rotate_back(out, d);
    for (int64_t c = 0; c < d; ++c) out[c] = out[c] / weight * gains[i % shape.heads];
  }
}

static void finish(const Op& op, const Step& step, const uint8_t* shared) {
  for (int64_t i = 0; i < step.parts(); ++i) {
    const Segment segment = step.part(i);
    const int64_t splits = tiling_of(op, step, segment).splits;
    if (splits > 1) finish_segment(op, segment, i, splits, shared);
  }
}

static size_t shared_bytes(const Op& op) {
  const Shape shape = shape_of(op);
  const int64_t tokens = op.segments > 0 ? op.segments : kSplitTokens;
  return kMaxSplits * tokens * shape.heads * part_bytes(shape.head_dim);
}

static void finish_query(const Op& op, const Query& query, int64_t d) {
  if (op.in[2]->dtype == DType::kI4) rotate_back(query.sum, d);
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
  if (dtype == DType::kI4) return run(Nibbles{});
  run(float{});
}

// The queries of a tile, all of them or those of each head, to the cache.
static void attend(const Op& op, const Step& step, const Segment& segment, Query* queries,
                   int64_t tokens, int64_t n, const Heads& heads, float* scratch) {
  const Shape shape = shape_of(op);
  const Tensor &keys = *op.in[1], &values = *op.in[2];
  Places places = {keys.n_rows, nullptr};
  if (!shape.cross) places = {keys.n_rows, segment.pages, segment.fork, segment.skipped};
  const bool blocks = by_blocks(shape, step, segment, tokens, heads.group);
  with_type(keys.dtype, [&](auto k) {
    with_type(values.dtype, [&](auto v) {
      using K = decltype(k);
      using V = decltype(v);
      if (!blocks) return attend_rows<K, V>(queries, heads, scratch, keys, values, places);
      attend_blocks(queries, n, scratch, head_rows<K>(keys, heads.first, heads.d),
                    head_rows<V>(values, heads.first, heads.d), places, heads.d);
    });
  });
}

// `index`: of the segment's tiles; of_segment: which of the step's it is
static void attend_segment(const Op& op, const Step& step, const Segment& segment,
                           int64_t of_segment, const Tiling& tiling, int64_t index,
                           const Task& task) {
  const Shape shape = shape_of(op);
  const int64_t d = shape.head_dim;
  const int64_t groups = tiling.heads > shape.group() ? tiling.heads / shape.group() : 1;
  const int64_t split = index % tiling.splits, tile = index / tiling.splits;
  const int64_t head = tile % tiling.head_tiles * tiling.heads;
  const int64_t later = tiling.token_tiles - 1 - tile / tiling.head_tiles;  // long ones first
  const int64_t token = later * tiling.tokens, left = segment.count - token;
  const int64_t tokens = left < tiling.tokens ? left : tiling.tokens;
  auto* memory = reinterpret_cast<float*>(task.scratch);
  float* const rest = memory + kMaxQueries * 2 * padded(d);
  Query queries[kMaxQueries];
  int64_t n = 0, end = 0;
  for (int64_t h = head; h < head + tiling.heads; ++h) {
    for (int64_t t = token; t < token + tokens; ++t, ++n) {
      float* own = memory + n * 2 * padded(d);
      Query& query = queries[n] = start_query(op, step, segment, segment.first + t, h, own);
      end = query.end;
      if (tiling.splits == 1) continue;
      take_part(query, split, tiling.splits);
    }
  }
  const Heads heads = {head / shape.group(), groups, n / groups, d, end};
  attend(op, step, segment, queries, tokens, n, heads, rest);
  for (int64_t r = 0; r < n; ++r) {
    if (tiling.splits == 1) {
      finish_query(op, queries[r], d);
    } else {
      const int64_t h = head + r / tokens, t = token + r % tokens;
      const int64_t part = part_index(shape, segment, of_segment, split, t) + h;
      store_part_of(queries[r], d, task.shared + part * part_bytes(d));
    }
  }
}

// Whether the tokens of a step, each by itself, are cut alike: then all of them take a part of the
// positions while it is in the processor's caches, before the next part.
static bool part_by_part(const Op& op, const Step& step) {
  if (!step.stepwise) return false;
  const int64_t tiles = tiling_of(op, step, step.part(0)).tiles();
  for (int64_t i = 1; i < step.parts(); ++i) {
    if (tiling_of(op, step, step.part(i)).tiles() != tiles) return false;
  }
  return true;
}

static void attention(const Op& op, const Step& step, const Task& task) {
  if (part_by_part(op, step)) {
    const int64_t i = task.index % step.parts();
    const Segment segment = step.part(i);
    const Tiling tiling = tiling_of(op, step, segment);
    return attend_segment(op, step, segment, i, tiling, task.index / step.parts(), task);
  }
  const bool several = step.shared() && task.count == kSharedTasksPerWorker * step.workers;
  const Range tiles = several ? share(task, tiles_of(op, step)) : Range{task.index, task.index + 1};
  int64_t before = 0;
  for (int64_t i = 0; i < step.parts() && before < tiles.end; ++i) {
    const Segment segment = step.part(i);
    const Tiling tiling = tiling_of(op, step, segment);
    const int64_t first = tiles.begin > before ? tiles.begin - before : 0;
    const int64_t end = std::min(tiles.end - before, tiling.tiles());
    for (int64_t tile = first; tile < end; ++tile) {
      attend_segment(op, step, segment, i, tiling, tile, task);
    }
    before += tiling.tiles();
  }
}

static size_t attention_scratch(const Op& op) {
  const int64_t d = shape_of(op).head_dim;
  // of rows as of blocks: block_floats has room for the digits of kMaxQueries
  const int64_t floats = kMaxQueries * 2 * padded(d) + block_floats(d) + kFewRows * kPositions;
  return floats * sizeof(float) + (op.segments > 0 ? 2 * gathered_bytes(d) : 0);
}

const Kernel kAttention = {attention_tasks, attention, attention_scratch, shared_bytes, finish};

}  // namespace LLM_ISA
}  // namespace llm
