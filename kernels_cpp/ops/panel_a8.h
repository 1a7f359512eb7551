// Products of many tokens in int8: kWidth rows of weights, of any format, become a panel in the
// cache, a row a lane, and meet all tokens.
#pragma once

#include "ops/lanes_a8.h"
#include "quant/a8.h"
#include "quant/int4.h"
#include "quant/int8.h"

namespace llm {
namespace LLM_ISA {

struct Panel {
  I32* levels;         // [K / 32][kBlockWords]
  LaneScales* scales;  // [K / 32]
};

inline size_t panel_bytes(int64_t n) { return n / 32 * (16 * sizeof(I32) + sizeof(LaneScales)); }

inline Panel panel_at(uint8_t* memory, int64_t n) {
  auto* levels = reinterpret_cast<I32*>(memory);
  return {levels, reinterpret_cast<LaneScales*>(levels + n / 32 * 16)};
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
  }
}

// Rows in words of bytes -> in pairs, from the last block to the first: they take twice the room.
template <bool kNibbles>
inline void split_panel(int64_t n, const Panel& panel) {
  if constexpr (kBlockWords<kNibbles> == 8) return;
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
    }
  }
};

constexpr int kPanelTokensA8 = kWidth == 16 ? 8 : 4;  // two registers each

template <bool kNibbles, int kTokens>
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
    if constexpr (kWords == 8) {
      for (int i = 0; i < kWords; ++i) {
        for (int t = 0; t < kTokens; ++t) {
          const XWords<kNibbles> words(rows[t].values + 32 * b);
          sums[t] = add_products<kNibbles>(sums[t], levels[i], words.at(i));
        }
      }
    } else {
      for (int t = 0; t < kTokens; ++t) {
        const XWords<kNibbles> words(rows[t].values + 32 * b);
        for (int i = 0; i < kWords; ++i) {
          sums[t] = add_products<kNibbles>(sums[t], levels[i], words.at(i));
        }
      }
    }
    const LaneScales scales = panel.scales[b];
    for (int t = 0; t < kTokens; ++t) {
      const F32 products = to_f32(widen_sums<kNibbles>(sums[t]));
      totals[t] += products * (scales.d * rows[t].scales[b]);
      totals[t] += scales.m * rows[t].sums[b];
    }
  }
}

template <bool kNibbles, int kTokens>
inline void panel_tile_a8(const Panel& panel, const Tensor& x, int64_t token, const Tensor& y,
                          int64_t first, int64_t count) {
  F32 totals[kTokens];
  panel_times_a8<kNibbles, kTokens>(panel, x, token, totals);
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
  std::memset(scratch, 0, panel_bytes(x.n_cols));
  for (int64_t first = rows.begin; first < rows.end; first += kWidth) {
    const int64_t left = rows.end - first, count = left < kWidth ? left : kWidth;
    Filler::template fill<Format>(weight, first, count, panel);
    int64_t t = 0;
    for (; t + kPanelTokensA8 <= tokens; t += kPanelTokensA8) {
      panel_tile_a8<kNibbles, kPanelTokensA8>(panel, x, t, y, first, count);
    }
    for (; t < tokens; ++t) panel_tile_a8<kNibbles, 1>(panel, x, t, y, first, count);
  }
}

}  // namespace LLM_ISA
}  // namespace llm
