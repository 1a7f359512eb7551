// What products need of int8 activations beside their rows, made once for all rows of weights.
// Workers keep it in scratch from one task to the next, until Task::kept changes: two kinds that
// formats with the same activations may need.
#pragma once

#include "base/aligned.h"
#include "ops/groups.h"
#include "ops/lanes_a8.h"

namespace llm {
namespace LLM_ISA {

// The offsets of half blocks, for formats with two scales a part: [K / kA8Block][tokens][2]
struct HalfOffsets {
  const A8Offset* at;
  int64_t tokens;

  const A8Offset& of(int64_t block, int64_t token, int half) const {
    return at[2 * (block * tokens + token) + half];
  }
};

// Where what is kept lies in a task's scratch.
class KeptA8 {
 public:
  static size_t bytes(const Tensor& x) { return kCacheLine + half_bytes(x) + pair_bytes(x); }

  KeptA8(const Tensor& x, int64_t tokens, const Task& task)
      : x_(x),
        tokens_(tokens),
        now_(task.kept),
        kept_(reinterpret_cast<uint64_t*>(task.scratch)),
        halves_(reinterpret_cast<A8Offset*>(task.scratch + kCacheLine)),
        pairs_(reinterpret_cast<int32_t*>(task.scratch + kCacheLine + half_bytes(x))) {}

  template <typename Format>
  HalfOffsets halves() const {
    if constexpr (Format::kScales == 1) return {nullptr, tokens_};
    if (is_stale(kept_[0])) {
      for (int64_t t = 0; t < tokens_; ++t) offset_halves(a8_row(x_, t), halves_ + 2 * t);
    }
    return {halves_, tokens_};
  }

  // Of builds and formats that take pairs, else null. In groups of kMost or fewer tokens: int32
  // [K / 32][tokens of the group][16], from the group's first token * K / 2 on
  template <typename Format, int kMost>
  const int32_t* pairs() const {
    if constexpr (kInBytes<Format::kLevels>) return nullptr;
    if (is_stale(kept_[1])) make_pairs<kMost>();
    return pairs_;
  }

 private:
  static size_t whole_lines(size_t bytes) {
    return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  static size_t half_bytes(const Tensor& x) {
    return whole_lines(sizeof(A8Offset) * x.n_rows * (x.n_cols / kA8Block * 2));
  }
  static size_t pair_bytes(const Tensor& x) {
    return kHasByteDot ? 0 : whole_lines(static_cast<size_t>(2 * x.n_rows * x.n_cols));
  }
  bool is_stale(uint64_t& kept) const {
    const bool stale = kept != now_;
    kept = now_;
    return stale;
  }
  // at: of the token's first block
  void offset_halves(const A8Row& row, A8Offset* at) const {
    constexpr int kHalf = kA8Block / 2;
    for (int64_t i = 0; i < x_.n_cols / kHalf; ++i) {
      const int16_t zero = row.offsets[i / 2].zero;
      int32_t total = kHalf * zero;
      for (int j = 0; j < kHalf; ++j) total += row.values[kHalf * i + j];
      at[i / 2 * tokens_ * 2 + i % 2] = {zero, static_cast<int16_t>(total)};
    }
  }
  template <int kMost>
  void make_pairs() const {
    const int64_t blocks = x_.n_cols / kA8Block;
    in_groups<kMost>(tokens_, [&](int64_t token, auto group) {
      for (int t = 0; t < group(); ++t) {
        const A8Row row = a8_row(x_, token + t);
        for (int64_t b = 0; b < blocks; ++b) {
          split_pairs(row, b, pairs_ + (token * blocks + b * group() + t) * 16);
        }
      }
    });
  }

  const Tensor& x_;
  int64_t tokens_;
  uint64_t now_;
  uint64_t* kept_;  // [2], of halves and of pairs
  A8Offset* halves_;
  int32_t* pairs_;
};

}  // namespace LLM_ISA
}  // namespace llm
