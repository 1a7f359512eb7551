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
constexpr int64_t kStreamed = 8 * kPositions;  // from so many on a token's cache is one stream
constexpr int64_t kSharedTasksPerWorker = 16;  // at most, of a shared step

// How a segment is cut into tiles: a tile has some tokens, one or more heads, and all parts of the
// positions or those of one of `splits` shares. A token gets the same bits however it is cut.
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

// The positions that the tokens of a segment see: of the first, and up to the end of the last.
static Range seen_of(const Shape& shape, const Step& step, const Segment& segment) {
  const int64_t length = length_of(shape, step, segment);
  const bool all = shape.bidirectional || shape.cross;
  const int64_t end = all ? length : int64_t{segment.start} + 1;
  return {first_seen(shape, end), length};
}

// The parts that some positions are in.
static Range parts_of(const Shape& shape, Range positions) {
  const Parts parts = parts_of(shape);
  return {parts.of(positions.begin), parts.of(positions.end - 1) + 1};
}

// Of the positions that a step of kSplitTokens or fewer tokens sees, at most
static int64_t most_parts(const Op& op) {
  const Shape shape = shape_of(op);
  const bool paged = op.positions > 0 && !shape.cross;
  const int64_t rows = paged ? op.positions : op.in[1]->n_rows;
  if (shape.window == 0) return parts_of(shape).of(rows - 1) + 1;
  return (shape.window + kSplitTokens) / parts_of(shape).even + 2;
}

// Shares of the positions of a few tokens, if any. A token's many positions are read in one stream
// by all its heads.
static Tiling split_tiling(const Shape& shape, int64_t tokens, int64_t length) {
  const int64_t seen = shape.window > 0 && shape.window < length ? shape.window : length;
  const Parts parts = parts_of(shape);
  const int64_t most = parts.of(length - 1) + 1 - parts.of(length - seen);
  int64_t splits = seen / kPositions;
  if (tokens == 1 && shape.group() <= kFewRows && seen >= kStreamed) {
    const int64_t heads = streamed_heads(shape), long_ones = seen / (2 * kPositions);
    splits = std::min(long_ones > kSplitTasks ? long_ones : kSplitTasks, kMaxSplits);
    return {1, heads, 1, shape.heads / heads, std::min(splits, most)};
  }
  const int64_t wanted = (kSplitTasks + shape.kv_heads - 1) / shape.kv_heads;
  splits = std::min({splits, wanted, most});
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
  const bool few = shape.kv_heads * token_tiles * step.parts() < 4 * step.workers;
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

// Whether rows of queries become blocks, which is faster for many and gives the same bits.
static bool by_blocks(int64_t tokens, int64_t queries) { return tokens > 1 || queries > kFewRows; }

constexpr int64_t kQueryLines = 3;  // of d floats: the query itself, the sums of a part and of all

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

static float gain_of(const Op& op, const Segment& segment, int64_t head) {
  const int64_t layer = segment.slot * op.slot_layers + op.params.attention.layer;
  return row<const float>(*op.in[3], layer)[head];
}

static Query start_query(const Op& op, const Step& step, const Segment& segment, int64_t token,
                         int64_t head, float* memory) {
  const Shape shape = shape_of(op);
  const int64_t d = shape.head_dim, position = segment.start + token - segment.first;
  const bool all = shape.bidirectional || shape.cross;
  const int64_t end = all ? length_of(shape, step, segment) : position + 1;
  const int64_t begin = first_seen(shape, end);
  const float* q = row<const float>(*op.in[0], token) + head * d;
  float* out = row<float>(*op.out[0], token) + head * d;
  const float gain = gain_of(op, segment, head);
  Query query = {memory,
                 out,
                 {memory + padded(d), kLowest, 0},
                 {memory + 2 * padded(d), kLowest, 0},
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
  begin_sum(query.total, d);
  return query;
}

// What a part of the positions leaves of a query, until all are there.
struct KeptSum {
  float most, weight;
  float values[1];  // [padded d]
};

static size_t kept_bytes(int64_t d) { return sizeof(float) * (2 + padded(d)); }

// Kept sums of a step: [segments][most_parts][tokens of a segment][heads]. Segments whose positions
// are split have one token where several share a step.
static int64_t kept_index(const Op& op, const Segment& segment, int64_t of_segment, int64_t part,
                          int64_t token) {
  return ((of_segment * most_parts(op) + part) * segment.count + token) * shape_of(op).heads;
}

static void keep(const WeightedSum& sum, int64_t d, uint8_t* at) {
  KeptSum& kept = *reinterpret_cast<KeptSum*>(at);
  kept.most = sum.most;
  kept.weight = sum.weight;
  std::memcpy(kept.values, sum.values, padded(d) * sizeof(float));
}

static void finish_query(const Op& op, const Query& query, int64_t d) {
  const WeightedSum& total = query.total;
  if (op.in[2]->dtype == DType::kI4) rotate_back(total.values, d);
  const float weight = with_sink(total.weight, total.most, query.sink);
  for (int64_t i = 0; i < d; i += kWidth) {
    const F32 values = load(total.values + i) / weight * query.gain;
    if (d - i >= kWidth) {
      store(query.out + i, values);
    } else {
      store_part(query.out + i, values, d - i);
    }
  }
}

// Parts are added in their order, as where one task has all of them.
static void finish_segment(const Op& op, const Step& step, const Segment& segment,
                           int64_t of_segment, uint8_t* shared) {
  const Shape shape = shape_of(op);
  const int64_t d = shape.head_dim;
  const Range parts = parts_of(shape, seen_of(shape, step, segment));
  for (int64_t i = 0; i < segment.count * shape.heads; ++i) {
    const auto sum_of_part = [&](int64_t part) {
      const int64_t index = kept_index(op, segment, of_segment, part, 0) + i;
      auto* kept = reinterpret_cast<KeptSum*>(shared + index * kept_bytes(d));
      return WeightedSum{kept->values, kept->most, kept->weight};
    };
    Query query = {};
    query.total = sum_of_part(0);
    for (int64_t p = 1; p < parts.end - parts.begin; ++p) add_part(query.total, sum_of_part(p), d);
    const int64_t head = i % shape.heads;
    query.out = row<float>(*op.out[0], segment.first + i / shape.heads) + head * d;
    query.gain = gain_of(op, segment, head);
    query.sink = sink_of(op, head);
    finish_query(op, query, d);
  }
}

static void finish(const Op& op, const Step& step, uint8_t* shared) {
  for (int64_t i = 0; i < step.parts(); ++i) {
    const Segment segment = step.part(i);
    if (tiling_of(op, step, segment).splits > 1) finish_segment(op, step, segment, i, shared);
  }
}

static size_t shared_bytes(const Op& op) {
  const Shape shape = shape_of(op);
  const int64_t tokens = op.segments > 0 ? op.segments : kSplitTokens;
  return most_parts(op) * tokens * shape.heads * kept_bytes(shape.head_dim);
}

// Calls run with a value of the type that a cache's values have.
template <typename Run>
static void with_type(DType dtype, const Run& run) {
  if (dtype == DType::kF16) return run(Half{});
  if (dtype == DType::kI8) return run(int8_t{});
  if (dtype == DType::kI4) return run(Nibbles{});
  run(float{});
}

// Queries of a tile and the parts that it has of the positions.
struct Tile {
  Query* queries;
  int64_t tokens, n;  // n: queries
  Heads heads;
  Range parts;
  bool all_parts;
};

// Calls done(part) for each of the parts once the queries have gathered it, unless it was added to
// their totals.
template <typename Done>
static void attend(const Op& op, const Step& step, const Segment& segment, const Tile& tile,
                   float* scratch, const Done& done) {
  const Shape shape = shape_of(op);
  const Tensor &keys = *op.in[1], &values = *op.in[2];
  const Heads& heads = tile.heads;
  Places places = {keys.cache_rows(), nullptr};
  if (!shape.cross) places = {keys.cache_rows(), segment.pages, &step};
  with_type(keys.dtype, [&](auto k) {
    with_type(values.dtype, [&](auto v) {
      using K = decltype(k);
      using V = decltype(v);
      const Parts parts = parts_of(shape);
      if (by_blocks(tile.tokens, heads.group)) {
        attend_blocks(tile.queries, tile.n, scratch, head_rows<K>(keys, heads.first, heads.d),
                      head_rows<V>(values, heads.first, heads.d), places, parts, tile.parts,
                      heads.d, tile.all_parts, done);
      } else {
        attend_rows<K, V>(tile.queries, heads, scratch, keys, values, places, parts, tile.parts,
                          done);
      }
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
  Query queries[kMaxQueries];
  int64_t n = 0;
  for (int64_t h = head; h < head + tiling.heads; ++h) {
    for (int64_t t = token; t < token + tokens; ++t, ++n) {
      float* own = memory + n * kQueryLines * padded(d);
      queries[n] = start_query(op, step, segment, segment.first + t, h, own);
    }
  }
  const Seen seen = seen_by(queries, n);
  const Range all = parts_of(shape, {seen.begin, seen.end});
  const int64_t n_parts = all.end - all.begin;
  const Range own = {all.begin + n_parts * split / tiling.splits,
                     all.begin + n_parts * (split + 1) / tiling.splits};
  const Heads heads = {head / shape.group(), groups, n / groups, d, seen.end};
  const bool whole = tiling.splits == 1;
  float* const rest = memory + kMaxQueries * kQueryLines * padded(d);
  attend(op, step, segment, {queries, tokens, n, heads, own, whole}, rest, [&](int64_t part) {
    for (int64_t r = 0; r < n; ++r) {
      if (whole) {
        add_part(queries[r].total, queries[r].part, d);
        continue;
      }
      const int64_t h = head + r / tokens, t = token + r % tokens;
      const int64_t at = kept_index(op, segment, of_segment, part - all.begin, t) + h;
      keep(queries[r].part, d, task.shared + at * kept_bytes(d));
    }
  });
  for (int64_t r = 0; r < n && whole; ++r) finish_query(op, queries[r], d);
}

// Whether each token of a step is a segment, as drafted ones are, all begin alike and are cut
// alike: then all of them take a part of the positions while it is in the processor's caches,
// before the next part.
static bool part_by_part(const Op& op, const Step& step) {
  if (step.n_segments != step.n_tokens) return false;
  const Segment first = step.part(0);
  const int64_t tiles = tiling_of(op, step, first).tiles();
  for (int64_t i = 1; i < step.parts(); ++i) {
    const Segment segment = step.part(i);
    if (segment.pages[0] != first.pages[0]) return false;
    if (tiling_of(op, step, segment).tiles() != tiles) return false;
  }
  return true;
}

static void attention(const Op& op, const Step& step, const Task& task) {
  const bool several = step.shared() && task.count == kSharedTasksPerWorker * step.workers;
  const Range tiles = several ? share(task, tiles_of(op, step)) : Range{task.index, task.index + 1};
  if (part_by_part(op, step)) {
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      const int64_t i = tile % step.parts();
      const Segment segment = step.part(i);
      const Tiling tiling = tiling_of(op, step, segment);
      attend_segment(op, step, segment, i, tiling, tile / step.parts(), task);
    }
    return;
  }
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
  const int64_t floats = kMaxQueries * kQueryLines * padded(d);
  return (floats + std::max(block_floats(d), row_floats(d))) * sizeof(float);
}

const Kernel kAttention = {attention_tasks, attention, attention_scratch, shared_bytes, finish};

}  // namespace LLM_ISA
}  // namespace llm
