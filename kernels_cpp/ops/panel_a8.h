// Products of many tokens in int8: kPanelRowsA8 rows of weights, of any format, become a panel in
// the cache, a row a lane, and meet all tokens.
#pragma once

#include "ops/groups.h"
#include "ops/lanes_a8.h"
#include "quant/a8.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "quant/q4_tiles.h"

namespace llm {
namespace LLM_ISA {

// What broadcasts of activations are shared by: registers of rows.
constexpr int kPanelParts = kWidth == 4 ? 1 : 2;
constexpr int kPanelRowsA8 = kPanelParts * kWidth;
constexpr int kPanelTokensA8 = kWidth == 16 ? 6 : 4;  // two registers each and part

// 32 columns of kWidth rows
template <bool kNibbles>
struct PanelBlock {
  I32 levels[kBlockWords<kNibbles>];
  I32 pairs;  // see offset_pairs; while the panel is filled, the levels that stand for 0
  LaneScales scales;
};

// A panel is [K / 32][kPanelParts] of them.
inline size_t panel_bytes(int64_t n) {
  return n / 32 * kPanelParts * (17 * sizeof(I32) + sizeof(LaneScales));
}

// Words of bytes become what products take. Zero points meet the sums of levels in bytes, and those
// of 4 bits are made to count in quarters as their zero points do; where products take 16 bits,
// widen_sums does that.
template <bool kNibbles>
inline void finish_block(PanelBlock<kNibbles>& block) {
  if constexpr (kInBytes<kNibbles>) {
    constexpr int kTimes = kNibbles ? 4 : 1;
    block.pairs = offset_pairs(level_sums<kNibbles>(block.levels) * kTimes, block.pairs);
    if constexpr (kNibbles) block.scales.d *= 1.0f / kTimes;
    if constexpr (kNibbles && kHasByteDot) {
      for (I32& words : block.levels) words *= kTimes;
    }
  } else {
    I32 words[8];
    std::memcpy(words, block.levels, sizeof words);
    split_levels<kNibbles>(words, block.levels);
  }
}

template <typename Format>
inline void fill_part(const uint8_t* tile, int part, int64_t n,
                      PanelBlock<Format::kNibbles>* block) {
  for (int64_t b = 0; b < n / 32; ++b, tile += Format::kTileBytes, block += kPanelParts) {
    I32 words[8];
    Format::levels(tile, part, words);
    std::memcpy(block->levels, words, sizeof words);
    block->scales = Format::scales(tile, part);
    block->pairs = Format::zeros(tile, part);
    finish_block(*block);
  }
}

template <typename Format>
inline void fill_panel_a8(const Tensor& weight, int64_t first, int64_t count,
                          PanelBlock<Format::kNibbles>* panel) {
  for (int64_t r = first; r < first + count; r += kWidth, ++panel) {
    const int part = static_cast<int>(r % kTileRows) / kWidth;
    fill_part<Format>(tile_row(weight, r), part, weight.n_cols, panel);
  }
}

// An index that the compiler adds where it is used: folded into the addresses of all rows, it would
// take more registers than there are.
inline int64_t kept_apart(int64_t index) {
  asm("" : "+r"(index));
  return index;
}

// kMinima: of the scales, m counts
template <bool kNibbles, bool kMinima, int kTokens>
inline void panel_times_a8(const PanelBlock<kNibbles>* block, const Tensor& x, int64_t token,
                           F32 (&result)[kTokens][kPanelParts]) {
  const uint8_t* rows[kTokens];
  for (int t = 0; t < kTokens; ++t) rows[t] = row<const uint8_t>(x, token + t);
  F32 totals[kTokens][kPanelParts] = {};
  const int64_t n = x.n_cols;
  for (int64_t b = 0; b < n / 32; ++b, block += kPanelParts) {
    I32 sums[kTokens][kPanelParts] = {};
    if constexpr (kInBytes<kNibbles>) {
      for (int i = 0; i < 8; ++i) {
        for (int t = 0; t < kTokens; ++t) {
          int32_t word;
          std::memcpy(&word, rows[t] + 32 * b + 4 * i, sizeof word);
          for (int p = 0; p < kPanelParts; ++p) {
            sums[t][p] = add_products<kNibbles>(sums[t][p], block[p].levels[i], word);
          }
        }
      }
    } else {
      XWords<kNibbles> words[kTokens];
      for (int t = 0; t < kTokens; ++t) words[t].read(a8_row(x, token + t), b);
      asm("" : "+m"(words));  // broadcasts from memory cost less than from lanes of a register
#pragma GCC unroll 1          // else compilers keep products back, more than there are registers
      for (int i = 0; i < 16; ++i) {
        for (int t = 0; t < kTokens; ++t) {
          for (int p = 0; p < kPanelParts; ++p) {
            sums[t][p] = add_products<kNibbles>(sums[t][p], block[p].levels[i], words[t].at(i));
          }
        }
      }
    }
    const int64_t at = kept_apart(n + 8 * b), offset_at = kept_apart(n + n / 4 + 4 * b);
    for (int t = 0; t < kTokens; ++t) {
      A8Scale of_block;
      A8Offset offset;
      std::memcpy(&of_block, rows[t] + at, sizeof of_block);
      std::memcpy(&offset, rows[t] + offset_at, sizeof offset);
      for (int p = 0; p < kPanelParts; ++p) {
        I32 products = widen_sums<kNibbles, 4>(sums[t][p]);
        if constexpr (kInBytes<kNibbles>) products = add_offset(products, block[p].pairs, offset);
        totals[t][p] += to_f32(products) * (block[p].scales.d * of_block.scale);
        if constexpr (kMinima) totals[t][p] += block[p].scales.m * of_block.sum;
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int p = 0; p < kPanelParts; ++p) result[t][p] = totals[t][p];
  }
}

template <bool kNibbles, bool kMinima, int kTokens>
inline void panel_tile_a8(const PanelBlock<kNibbles>* panel, const Tensor& x, int64_t token,
                          const Tensor& y, int64_t first, int64_t count) {
  F32 totals[kTokens][kPanelParts];
  panel_times_a8<kNibbles, kMinima, kTokens>(panel, x, token, totals);
  for (int t = 0; t < kTokens; ++t) {
    std::memcpy(row<float>(y, token + t) + first, totals[t], count * sizeof(float));
  }
}

template <typename Format>
inline void matmul_a8_by_panels(const Tensor& x, const Tensor& weight, const Tensor& y,
                                int64_t tokens, Range rows, uint8_t* scratch) {
  constexpr bool kNibbles = Format::kNibbles;
  constexpr bool kMinima = kInBytes<kNibbles> ? Format::kHasMinimum : kNibbles;
  auto* panel = reinterpret_cast<PanelBlock<kNibbles>*>(scratch);
  std::memset(scratch, 0, panel_bytes(x.n_cols));
  for (int64_t first = rows.begin; first < rows.end; first += kPanelRowsA8) {
    const int64_t left = rows.end - first, count = left < kPanelRowsA8 ? left : kPanelRowsA8;
    fill_panel_a8<Format>(weight, first, count, panel);
    in_groups<kPanelTokensA8>(tokens, [&](int64_t token, auto group) {
      panel_tile_a8<kNibbles, kMinima, group()>(panel, x, token, y, first, count);
    });
  }
}

}  // namespace LLM_ISA
}  // namespace llm
