// Products of a group of tokens with tiles of 16 rows x 32 columns, which are unpacked once for all
// of them.
#pragma once

#include "base/aligned.h"
#include "ops/matmul_tiles.h"
#include "ops/token_groups.h"

namespace llm {
namespace LLM_ISA {

constexpr int kGroupTokens = kWidth == 16 ? 8 : 4;  // at most: sums in registers
// Of floats as digits, which take three times the sums
constexpr int kDigitTokens = kWidth == 16 ? 8 : 1;
// From how many tokens on panels are faster than groups.
constexpr int64_t kGroupsWorth = kWidth == 16 ? 17 : 6;

// Whether panels take zero points of weights into their integers, in quarters.
template <typename Format>
constexpr bool kQuarters = Format::kLevels == Levels::kNibbles && !Format::kHasMinimum;

// levels . x of a token, times 4 where `kQuarters`
template <typename Format, int kTokens>
inline I32 group_products(const I32* levels, const I32& pairs, const A8Group<kTokens>& x, int t,
                          int scale) {
  constexpr Levels kLevels = Format::kLevels;
  I32 dots = block_dots<kLevels, Format::kScales>(levels, XWords<kLevels>(x.row(t), 0), scale);
  if constexpr (kQuarters<Format>) dots *= 4;
  return add_offset(dots, pairs, offset_of<kLevels>(x.offsets[t]));
}

// With the bits that panel_times_a8 gives: what it says of scales and zero points holds here.
template <typename Format, int kTokens>
inline void add_part_of_group(const TilePart& at, const A8Group<kTokens>& x,
                              TileSums<kTokens>& totals) {
  constexpr Levels kLevels = Format::kLevels;
  constexpr int kScales = Format::kScales, kWords = 8 / kScales;
  for (int lanes = 0; lanes < kVectors; ++lanes) {
    I32 words[8];
    Format::levels(at.tile, at.part, lanes, words);
    for (int scale = 0; scale < kScales; ++scale) {
      LaneScales scales = Format::scales(at.tile, at.part, lanes, scale);
      const I32 sums = level_sums<kLevels, kWords>(words + kWords * scale);
      I32 pairs;
      if constexpr (kQuarters<Format>) {
        pairs = offset_pairs(sums * 4, Format::zeros(at.tile, at.part, lanes));
        scales.d *= 0.25f;
      } else {
        pairs = offset_pairs(sums, spread(Format::kZero));
      }
      for (int t = 0; t < kTokens; ++t) {
        const I32 products = group_products<Format>(words, pairs, x, t, scale);
        F32& total = totals.of[t][lanes];
        total += to_f32(products) * (scales.d * x.scales[t].scale);
        if constexpr (Format::kHasMinimum) total += scales.m * sum_of<kScales>(x.row(t), 0, scale);
      }
    }
  }
}

template <typename Format, int kTokens>
inline void add_part_of_digits(const TilePart& at, const DigitGroup<kTokens>& x,
                               TileSums<kTokens>& totals) {
  F32 dots[kTokens][kVectors];
  digit_dots(Format::groups(at.tile, at.part), x.digits, dots);
  for (int lanes = 0; lanes < kVectors; ++lanes) {
    const LaneScales scales = Format::scales(at.tile, at.part, lanes, 0);
    for (int t = 0; t < kTokens; ++t) {
      totals.of[t][lanes] += dots[t][lanes] * (scales.d * x.steps[t]);
      totals.of[t][lanes] += scales.m * x.sums[t];
    }
  }
}

// What a worker keeps from one task to the next, until Task::kept changes.
class GroupScratch {
 public:
  explicit GroupScratch(uint8_t* memory) : memory_(memory) {}
  // Memory for groups, and whether it still has to be filled.
  uint8_t* groups() const { return memory_ + kCacheLine; }
  bool stale(uint64_t kept) {
    uint64_t& filled = *reinterpret_cast<uint64_t*>(memory_);
    if (filled == kept) return false;
    filled = kept;
    return true;
  }
  static size_t a8_bytes(const Tensor& x) {
    const int64_t most = x.n_rows < kGroupsWorth ? x.n_rows : kGroupsWorth - 1;
    return kCacheLine + (most + 1) * row_bytes(x);  // a group may have one too many
  }
  static size_t digit_bytes(const Tensor& x) {
    return kCacheLine + sizeof(DigitGroup<kDigitTokens>) * (x.n_cols / kDigitBlock);
  }

 private:
  uint8_t* memory_;
};

template <typename Format>
inline void matmul_a8_by_groups(const Tensor& x, const Tensor& weight, const Tensor& y,
                                int64_t tokens, Range rows, uint8_t* memory, uint64_t kept) {
  GroupScratch scratch(memory);
  const bool stale = scratch.stale(kept);
  uint8_t* at = scratch.groups();
  in_padded_groups<kGroupTokens>(tokens, [&](int64_t token, auto size, int64_t count) {
    auto* group = reinterpret_cast<A8Group<size()>*>(at);
    at += sizeof *group * (x.n_cols / kA8Block);
    if (stale) gather_group(x, token, count, group);
    over_tiles<Format, size()>(
        weight, y, token, rows,
        [&](const TilePart& part, int64_t b, TileSums<size()>& totals) {
          add_part_of_group<Format>(part, group[b], totals);
        },
        count);
  });
}

template <typename Format>
inline void matmul_by_digits(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t tokens,
                             Range rows, uint8_t* memory, uint64_t kept) {
  GroupScratch scratch(memory);
  const bool stale = scratch.stale(kept) || tokens > kDigitTokens;
  in_padded_groups<kDigitTokens>(tokens, [&](int64_t token, auto size, int64_t count) {
    auto* group = reinterpret_cast<DigitGroup<size()>*>(scratch.groups());
    if (stale) gather_group(x, token, count, group);
    over_tiles<Format, size()>(
        weight, y, token, rows,
        [&](const TilePart& part, int64_t b, TileSums<size()>& totals) {
          add_part_of_digits<Format>(part, group[b], totals);
        },
        count);
  });
}

}  // namespace LLM_ISA
}  // namespace llm
