// Parts of the positions that a query sees. Each is attended to by itself, and what was gathered
// there is added in the order of the parts (Dao et al. 2023, "Flash-Decoding"). Where parts end
// depends on positions alone: a token gets the same bits alone, beside drafted tokens, in a prompt
// and in a shared step, whichever thread takes a part and however many take parts at once.
#pragma once

#include <algorithm>

#include "ops/attention_cache.h"

namespace llm {
namespace LLM_ISA {

constexpr float kLowest = -3e38f;  // of no score yet: not infinite, so that 0 = kLowest - kLowest

// Parts are whole chunks of kPositions. There are 16 up to position 2048 and 8 more up to each
// further power of two, so that a long context has few and a short one enough for all threads.
struct Parts {
  int64_t even = 0;  // positions of every part; 0: as above

  // The part that a position is in.
  int64_t of(int64_t p) const {
    if (even > 0) return p / even;
    int64_t size = kPositions, before = 0;
    for (; p >= 16 * size; size *= 2) before += 8;
    return before + p / size;
  }
  // Its first position
  int64_t begin(int64_t part) const {
    if (even > 0) return part * even;
    const int64_t doubled = part < 16 ? 0 : (part - 8) / 8;
    return (part - 8 * doubled) * (kPositions << doubled);
  }
};

// A window moves over parts that are alike. An encoder's text is one part: it has no tokens to
// come.
inline Parts parts_of(const Shape& shape) {
  if (shape.bidirectional) return {int64_t{1} << 48};
  if (shape.window == 0) return {};
  const int64_t chunks = (shape.window / 16 + kPositions - 1) / kPositions;
  return {std::max(chunks, int64_t{1}) * kPositions};
}

// How two sums of weighted values become one, a query a lane: relative to the larger maximum.
struct Joining {
  F32 of_total, of_part, most;
};

inline Joining joining(F32 total_most, F32 part_most) {
  const F32 difference = total_most - part_most;
  const F32 less = exp(-abs(difference)), one = broadcast(1.0f);
  return {choose(difference < 0.0f, less, one), choose(difference < 0.0f, one, less),
          max(total_most, part_most)};
}

// The first product is rounded before the second is added, in every build and loop.
inline F32 join(F32 total, F32 part, const Joining& how) {
  return rounded(total * how.of_total) + part * how.of_part;
}

inline void begin_sum(WeightedSum& sum, int64_t d) {
  std::memset(sum.values, 0, padded(d) * sizeof(float));
  sum.most = kLowest;
  sum.weight = 0;
}

inline void add_part(WeightedSum& total, const WeightedSum& part, int64_t d) {
  const Joining how = joining(broadcast(total.most), broadcast(part.most));
  for (int64_t c = 0; c < d; c += kWidth) {
    store(total.values + c, join(load(total.values + c), load(part.values + c), how));
  }
  total.weight = join(broadcast(total.weight), broadcast(part.weight), how)[0];
  total.most = how.most[0];
}

}  // namespace LLM_ISA
}  // namespace llm
