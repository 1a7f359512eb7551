// Products of many tokens in int8: kPanelRowsA8 rows of weights, of any format, become a panel in
// the cache, a row a lane, and meet all tokens.
#pragma once

#include "base/aligned.h"
#include "ops/ahead.h"
#include "ops/kept_a8.h"
#include "quant/a8.h"
#include "quant/formats.h"

namespace llm {
namespace LLM_ISA {

// What broadcasts of activations are shared by: registers of rows. SMMLA takes pairs of tokens as
// they lie in memory, and has registers left.
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int kPanelParts = 2;
#else
constexpr int kPanelParts = kWidth == 4 ? 1 : 2;
#endif
constexpr int kPanelRowsA8 = kPanelParts * kWidth;
constexpr int kPanelTokensA8 = kWidth == 16 ? 6 : 4;  // two registers each and part

// 32 columns of kWidth rows
template <typename Format>
struct PanelBlock {
  I32 levels[kBlockWords<Format::kLevels>];
  I32 pairs[Format::kScales];  // see offset_pairs
  LaneScales scales[Format::kScales];
};

// A panel is [K / 32][kPanelParts] of them.
constexpr size_t kMaxScales = 2;
inline size_t panel_bytes(int64_t n) {
  return n / 32 * kPanelParts *
         (16 * sizeof(I32) + kMaxScales * (sizeof(I32) + sizeof(LaneScales)));
}

template <Levels kLevels>
constexpr int kTimes = kLevels == Levels::kNibbles ? 4 : 1;

// A part of a tile becomes what products take. Zero points meet the sums of levels in bytes, and
// those of 4 bits are made to count in quarters as their zero points do; where sums have 16 bits,
// widen_sums does that (kTimes).
template <typename Format>
inline void fill_block(const TilePart& at, int lanes, PanelBlock<Format>& block) {
  constexpr Levels kLevels = Format::kLevels;
  constexpr bool kNibbles = kLevels == Levels::kNibbles;
  constexpr int kWords = 8 / Format::kScales;
  I32 words[8];
  product_levels<Format>(at.tile, at.part, lanes, words);
  for (int i = 0; i < Format::kScales; ++i) {
    block.scales[i] = Format::scales(at.tile, at.part, lanes, i);
    if constexpr (kInBytes<kLevels>) {
      const I32 sums = level_sums<kLevels, kWords>(words + kWords * i);
      if constexpr (kNibbles) {
        block.pairs[i] = offset_pairs(sums * 4, Format::zeros(at.tile, at.part, lanes));
        block.scales[i].d *= 0.25f;
      } else {
        block.pairs[i] = offset_pairs(sums, spread(Format::kZero));
      }
    }
  }
  if constexpr (kNibbles && kHasByteDot) {
    for (I32& word : words) word *= 4;
  }
  split_levels<kLevels>(words, block.levels);
}

// Rows first..first+count-1 of a weight; parts of the panel behind the last row are zero, as memory
// that was used for something else would make sums overflow.
template <typename Format>
inline void fill_panel_a8(const Tensor& weight, int64_t columns, int64_t first, int64_t count,
                          PanelBlock<Format>* panel) {
  if (count <= kPanelRowsA8 - kWidth) {
    std::memset(static_cast<void*>(panel), 0, columns / 32 * kPanelParts * sizeof *panel);
  }
  for (int64_t r = first; r < first + count; r += kWidth, ++panel) {
    const int lanes = static_cast<int>(r % kTileRows) / kWidth;
    const uint8_t* tiles = tile_row(weight, r);
    PanelBlock<Format>* block = panel;
    for (int64_t k = 0; k < columns; k += kTileColumns, block += kPanelParts) {
      fill_block<Format>(part_at<Format>(tiles, k), lanes, *block);
    }
  }
}

// Of a level that several products take: loads are what there is least of.
inline I32 in_register(I32 levels) {
#if defined(__AVX2__)
  asm("" : "+x"(levels));
#endif
  return levels;
}

// An index that the compiler adds where it is used: folded into the addresses of all rows, it would
// take more registers than there are.
inline int64_t kept_apart(int64_t index) {
  asm("" : "+r"(index));
  return index;
}

// The activations of all tokens: rows in bytes, or as pairs; see KeptA8.
struct PanelX {
  const uint8_t* rows;
  int64_t stride;  // bytes
  const int32_t* pairs;
  HalfOffsets halves;  // of formats with two scales
};

template <Levels kLevels, int kTokens>
class GroupX {
 public:
  GroupX(const PanelX& x, int64_t token, int64_t n)
      : pairs_(x.pairs + token * n / 2), halves_{x.halves.at + 2 * token, x.halves.tokens} {
    for (int t = 0; t < kTokens; ++t) rows_[t] = x.rows + (token + t) * x.stride;
  }
  int32_t word(int64_t block, int token, int index) const {
    if constexpr (!kInBytes<kLevels>) return pairs_[(block * kTokens + token) * 16 + index];
    return of_block<int32_t>(token, kA8Block * block + 4 * index);
  }
  A8Offset half(int64_t block, int token, int index) const {
    return halves_.of(kept_apart(block), token, index);
  }
  template <typename T>
  T of_block(int token, int64_t offset) const {
    T value;
    std::memcpy(&value, rows_[token] + offset, sizeof value);
    return value;
  }

 private:
  const int32_t* pairs_;
  HalfOffsets halves_;  // from the group's first token on
  const uint8_t* rows_[kTokens];
};

// Whether sums of activations count: products in bytes know zero points from their offsets.
template <typename Format>
constexpr bool kMinima = kInBytes<Format::kLevels> ? Format::kHasMinimum : kHasM<Format>;

// totals += products of the columns of block b that share a scale, times that scale; sums: 32 bits
// wide
template <typename Format, int kTokens>
inline void add_scaled_sums(const PanelBlock<Format>* block, int64_t n, int64_t b, int scale,
                            const GroupX<Format::kLevels, kTokens>& x,
                            const I32 (&sums)[kTokens][kPanelParts],
                            F32 (&totals)[kTokens][kPanelParts]) {
  constexpr int kScales = Format::kScales;
  const int64_t at = kept_apart(n + 8 * b), offset_at = kept_apart(n + n / 4 + 4 * b);
  for (int t = 0; t < kTokens; ++t) {
    const auto of_block = x.template of_block<A8Scale>(t, at);
    const A8Offset offset =
        kScales == 1 ? x.template of_block<A8Offset>(t, offset_at) : x.half(b, t, scale);
    for (int p = 0; p < kPanelParts; ++p) {
      I32 products = sums[t][p];
      if constexpr (kInBytes<Format::kLevels>) {
        products = add_offset(products, block[p].pairs[scale], offset);
      }
      totals[t][p] += to_f32(products) * (block[p].scales[scale].d * of_block.scale);
    }
    if constexpr (kMinima<Format>) {
      const float sum = sum_of<kScales>(of_block, offset);
      for (int p = 0; p < kPanelParts; ++p) totals[t][p] += block[p].scales[scale].m * sum;
    }
  }
}

template <typename Format, int kTokens>
inline void panel_times_a8(const PanelBlock<Format>* block, int64_t n,
                           const GroupX<Format::kLevels, kTokens>& x,
                           F32 (&result)[kTokens][kPanelParts]) {
  constexpr Levels kLevels = Format::kLevels;
  constexpr int kScales = Format::kScales, kWords = kBlockWords<kLevels> / kScales;
  constexpr int kStep = kWords < kWordsPerSum<kLevels> ? kWords : kWordsPerSum<kLevels>;
  F32 totals[kTokens][kPanelParts] = {};
  for (int64_t b = 0; b < n / 32; ++b, block += kPanelParts) {
    for (int scale = 0; scale < kScales; ++scale) {
      I32 wide[kTokens][kPanelParts] = {};
#pragma GCC unroll 4
      for (int first = 0; first < kWords; first += kStep) {
        I32 sums[kTokens][kPanelParts] = {};
#pragma GCC unroll 16
        for (int i = first; i < first + kStep; ++i) {
          const int index = word_of<kLevels, kScales>(scale, i);
          I32 levels[kPanelParts];
          for (int p = 0; p < kPanelParts; ++p) levels[p] = in_register(block[p].levels[index]);
          for (int t = 0; t < kTokens; ++t) {
            const int32_t word = x.word(b, t, index);
            for (int p = 0; p < kPanelParts; ++p) {
              sums[t][p] = in_register(add_products<kLevels>(sums[t][p], levels[p], word));
            }
          }
        }
        for (int t = 0; t < kTokens; ++t) {
          for (int p = 0; p < kPanelParts; ++p) {
            wide[t][p] += widen_sums<kLevels, kTimes<kLevels>>(sums[t][p]);
          }
        }
      }
      add_scaled_sums<Format, kTokens>(block, n, b, scale, x, wide, totals);
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int p = 0; p < kPanelParts; ++p) result[t][p] = totals[t][p];
  }
}

// y: of the first of the panel's rows and the group's tokens; count: of rows
template <typename Format, int kTokens>
inline void panel_tile_a8(const PanelBlock<Format>* panel, int64_t n,
                          const GroupX<Format::kLevels, kTokens>& x, float* y, int64_t y_stride,
                          int64_t count) {
  F32 totals[kTokens][kPanelParts];
  panel_times_a8<Format, kTokens>(panel, n, x, totals);
  for (int t = 0; t < kTokens; ++t, y += y_stride) {
    if (count == kPanelRowsA8) {
      std::memcpy(y, totals[t], sizeof totals[t]);
    } else {
      std::memcpy(y, totals[t], count * sizeof(float));
    }
  }
}

template <typename Format>
inline void matmul_a8_by_panels(const Tensor& x, const Tensor& weight, const Tensor& y,
                                int64_t tokens, Range rows, const Task& task) {
  const int64_t n = x.n_cols;
  const KeptA8 kept(x, tokens, task);
  auto* panel = reinterpret_cast<PanelBlock<Format>*>(task.scratch + KeptA8::bytes(x));
  const PanelX values = {row<const uint8_t>(x, 0), row_bytes(x),
                         kept.pairs<Format, kPanelTokensA8>(), kept.halves<Format>()};
  const int64_t groups = (tokens + kPanelTokensA8 - 1) / kPanelTokensA8;
  const int64_t bytes = kPanelRowsA8 * row_bytes(weight.dtype, n);
  for (int64_t first = rows.begin; first < rows.end; first += kPanelRowsA8) {
    const int64_t left = rows.end - first, count = left < kPanelRowsA8 ? left : kPanelRowsA8;
    fill_panel_a8<Format>(weight, n, first, count, panel);
    Ahead next(tile_row(weight, first + kPanelRowsA8), 1, bytes, 0, groups);
    in_groups<kPanelTokensA8>(tokens, [&](int64_t token, auto group) {
      next.ask();
      const GroupX<Format::kLevels, group()> of_group(values, token, n);
      panel_tile_a8<Format, group()>(panel, n, of_group, row<float>(y, token) + first, y.n_cols,
                                     count);
    });
  }
}

}  // namespace LLM_ISA
}  // namespace llm
