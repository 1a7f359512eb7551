// The offsets of half blocks of activations, for formats with two scales a part. Workers keep them
// in scratch from one task to the next, until Task::kept changes.
#pragma once

#include "base/aligned.h"
#include "quant/a8.h"

namespace llm {
namespace LLM_ISA {

// [K / kA8Block][tokens][2]
struct HalfOffsets {
  const A8Offset* at;
  int64_t tokens;

  const A8Offset& of(int64_t block, int64_t token, int half) const {
    return at[2 * (block * tokens + token) + half];
  }
};

inline size_t half_offset_bytes(const Tensor& x) {
  const size_t all = sizeof(A8Offset) * x.n_rows * (x.n_cols / kA8Block * 2);
  return kCacheLine + (all + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// at: of the token's first block
inline void offset_halves(const A8Row& x, int64_t blocks, int64_t tokens, A8Offset* at) {
  constexpr int kHalf = kA8Block / 2;
  for (int64_t i = 0; i < 2 * blocks; ++i) {
    const int16_t zero = x.offsets[i / 2].zero;
    int32_t total = kHalf * zero;
    for (int j = 0; j < kHalf; ++j) total += x.values[kHalf * i + j];
    at[i / 2 * tokens * 2 + i % 2] = {zero, static_cast<int16_t>(total)};
  }
}

// Of x's first tokens, made unless they are there; null where the format has no use for them. They
// take the first half_offset_bytes of the task's scratch.
template <typename Format>
inline HalfOffsets half_offsets(const Tensor& x, int64_t tokens, const Task& task) {
  if constexpr (Format::kScales == 1) return {nullptr, tokens};
  uint64_t& kept = *reinterpret_cast<uint64_t*>(task.scratch);
  auto* offsets = reinterpret_cast<A8Offset*>(task.scratch + kCacheLine);
  if (kept != task.kept) {
    for (int64_t t = 0; t < tokens; ++t) {
      offset_halves(a8_row(x, t), x.n_cols / kA8Block, tokens, offsets + 2 * t);
    }
    kept = task.kept;
  }
  return {offsets, tokens};
}

}  // namespace LLM_ISA
}  // namespace llm
