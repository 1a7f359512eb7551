// Products of many tokens in int8: kWidth rows of weights, of any format, become a panel in the
// cache, a row a lane, and meet all tokens.
#pragma once

#include "ops/groups.h"
#include "ops/lanes_a8.h"
#include "quant/a8.h"
#include "quant/int4.h"
#include "quant/int8.h"

namespace llm {
namespace LLM_ISA {

struct Panel {
  I32* levels;         // [K / 32][kBlockWords]
  I32* pairs;          // [K / 32], see offset_pairs
  LaneScales* scales;  // [K / 32]
};

inline size_t panel_bytes(int64_t n) { return n / 32 * (17 * sizeof(I32) + sizeof(LaneScales)); }

inline Panel panel_at(uint8_t* memory, int64_t n) {
  auto* levels = reinterpret_cast<I32*>(memory);
  I32* pairs = levels + n / 32 * 16;
  return {levels, pairs, reinterpret_cast<LaneScales*>(pairs + n / 32)};
}

// A format of rows: every row fills its lane.
template <typename Format>
inline void fill_lane(const uint8_t* weights, int64_t n, int lane, const Panel& panel) {
  for (int64_t b = 0; b < n / 32; ++b, weights += Format::kBytes) {
    int32_t words[8];
    store_bytes(words, Format::levels(weights));
    auto* levels = reinterpret_cast<int32_t*>(panel.levels + b * 8) + lane;
    for (int g = 0; g < 8; ++g) levels[g * kWidth] = words[g];
    const Scale scale = Format::scale(weights);
    auto* scales = reinterpret_cast<float*>(panel.scales + b) + lane;
    scales[0] = scale.d;
    scales[kWidth] = scale.m;
    reinterpret_cast<int32_t*>(panel.pairs + b)[lane] = Format::kZero;
  }
}

// Rows in words of bytes -> in pairs, from the last block to the first: they take twice the room.
template <bool kNibbles>
inline void split_panel(int64_t n, const Panel& panel) {
  if constexpr (kInBytes<kNibbles>) return;
  for (int64_t b = n / 32 - 1; b >= 0; --b) {
    I32 words[8];
    std::memcpy(words, panel.levels + b * 8, sizeof words);
    split_levels<kNibbles>(words, panel.levels + b * kBlockWords<kNibbles>);
  }
}

struct RowPanel {  // how a panel is filled from a format of rows
  template <typename Format>
  static void fill(const Tensor& weight, int64_t first, int64_t count, const Panel& panel) {
    for (int r = 0; r < count; ++r) {
      fill_lane<Format>(row<const uint8_t>(weight, first + r), weight.n_cols, r, panel);
    }
    split_panel<Format::kNibbles>(weight.n_cols, panel);
  }
};

struct TilePanel {  // how it is filled from tiles
  template <typename Format>
  static void fill(const Tensor& weight, int64_t first, int64_t, const Panel& panel) {
    const uint8_t* tile = tile_row(weight, first);
    const int part = static_cast<int>(first % kTileRows) / kWidth;
    for (int64_t b = 0; b < weight.n_cols / 32; ++b, tile += Format::kTileBytes) {
      I32 words[8];
      Format::levels(tile, part, words);
      split_levels<Format::kNibbles>(words, panel.levels + b * kBlockWords<Format::kNibbles>);
      panel.scales[b] = Format::scales(tile, part);
      panel.pairs[b] = Format::zeros(tile, part);
    }
  }
};

constexpr int kPanelTokensA8 = kWidth == 16 ? 8 : 4;  // two registers each

// Zero points, in pairs so far, meet the sums of levels in bytes. Levels of 4 bits are made to
// count in quarters as their zero points do; where products take 16 bits, widen_sums does that.
template <bool kNibbles>
inline void fold_zeros(int64_t n, const Panel& panel) {
  if constexpr (!kInBytes<kNibbles>) return;
  constexpr int kTimes = kNibbles ? 4 : 1;
  for (int64_t b = 0; b < n / 32; ++b) {
    I32* levels = panel.levels + 8 * b;
    panel.pairs[b] = offset_pairs(level_sums<kNibbles>(levels) * kTimes, panel.pairs[b]);
    if constexpr (kNibbles) panel.scales[b].d *= 1.0f / kTimes;
    if constexpr (kNibbles && kHasByteDot) {
      for (int g = 0; g < 8; ++g) levels[g] *= kTimes;
    }
  }
}

// kMinima: of the scales, m counts
template <bool kNibbles, bool kMinima, int kTokens>
inline void panel_times_a8(const Panel& panel, const Tensor& x, int64_t token,
                           F32 (&totals)[kTokens]) {
  A8Row rows[kTokens];
  for (int t = 0; t < kTokens; ++t) {
    rows[t] = a8_row(x, token + t);
    totals[t] = F32{};
  }
  constexpr int kWords = kBlockWords<kNibbles>;
  const I32* levels = panel.levels;
  for (int64_t b = 0; b < x.n_cols / 32; ++b, levels += kWords) {
    I32 sums[kTokens] = {};
    if constexpr (kInBytes<kNibbles>) {
      for (int i = 0; i < kWords; ++i) {
        for (int t = 0; t < kTokens; ++t) {
          const XWords<kNibbles> words(rows[t], b);
          sums[t] = add_products<kNibbles>(sums[t], levels[i], words.at(i));
        }
      }
    } else {
      for (int t = 0; t < kTokens; ++t) {
        const XWords<kNibbles> words(rows[t], b);
        for (int i = 0; i < kWords; ++i) {
          sums[t] = add_products<kNibbles>(sums[t], levels[i], words.at(i));
        }
      }
    }
    const LaneScales scales = panel.scales[b];
    for (int t = 0; t < kTokens; ++t) {
      I32 products = widen_sums<kNibbles, 4>(sums[t]);
      if constexpr (kInBytes<kNibbles>) {
        products = add_offset(products, panel.pairs[b], rows[t].offsets[b]);
      }
      totals[t] += to_f32(products) * (scales.d * rows[t].scales[b]);
      if constexpr (kMinima) totals[t] += scales.m * rows[t].sums[b];
    }
  }
}

template <bool kNibbles, bool kMinima, int kTokens>
inline void panel_tile_a8(const Panel& panel, const Tensor& x, int64_t token, const Tensor& y,
                          int64_t first, int64_t count) {
  F32 totals[kTokens];
  panel_times_a8<kNibbles, kMinima, kTokens>(panel, x, token, totals);
  for (int t = 0; t < kTokens; ++t) {
    float* out = row<float>(y, token + t) + first;
    if (count == kWidth) {
      store(out, totals[t]);
    } else {
      store_part(out, totals[t], count);
    }
  }
}

template <typename Format, typename Filler>
inline void matmul_a8_by_panels(const Tensor& x, const Tensor& weight, const Tensor& y,
                                int64_t tokens, Range rows, uint8_t* scratch) {
  const Panel panel = panel_at(scratch, x.n_cols);
  constexpr bool kNibbles = Format::kNibbles;
  constexpr bool kMinima = kInBytes<kNibbles> ? Format::kHasMinimum : kNibbles;
  std::memset(scratch, 0, panel_bytes(x.n_cols));
  for (int64_t first = rows.begin; first < rows.end; first += kWidth) {
    const int64_t left = rows.end - first, count = left < kWidth ? left : kWidth;
    Filler::template fill<Format>(weight, first, count, panel);
    fold_zeros<kNibbles>(x.n_cols, panel);
    in_groups<kPanelTokensA8>(tokens, [&](int64_t token, auto group) {
      panel_tile_a8<kNibbles, kMinima, group()>(panel, x, token, y, first, count);
    });
  }
}

}  // namespace LLM_ISA
}  // namespace llm
