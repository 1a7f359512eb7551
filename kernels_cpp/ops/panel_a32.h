// Products of many tokens in float32: a strip of weights, of any format, becomes a panel in the
// cache, a row a lane, and meets all tokens; each activation is spread over the lanes.
#pragma once

#include "ops/ahead.h"
#include "ops/matmul_tiles.h"
#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kPanelWorthA32 = 3;  // tokens, from which on unpacking a panel pays
constexpr int kPanelVectors = kWidth == 16 ? 3 : 2;
constexpr int kPanelRows = kPanelVectors * kWidth;
constexpr int kPanelColumns = 768;  // at most at a time, whole super-blocks: the panel stays in L2
// An accumulator each and vector. Rows of activations often lie a multiple of 4 KiB apart, all in
// one set of the first cache, which has 8 ways or more.
constexpr int kPanelTokensA32 = kWidth == 16 ? 8 : 6;
// Of the panel in use, between those of the next that are asked for.
constexpr int kColumnsPerAsk = 64;
constexpr size_t kPanelBytesA32 = sizeof(float) * kPanelRows * kPanelColumns;

// `count` rows of a float format, columns from..from+n-1 -> lanes of `to` [n][kPanelRows]
template <typename Format>
inline void fill_lanes_from_values(const Tensor& weight, int64_t first, int64_t count, int64_t from,
                                   int64_t n, float* to) {
  const auto* rows = row<const typename Format::Value>(weight, first) + from;
  int64_t k = 0;
  if (count == kWidth) {
    for (; k + kWidth <= n; k += kWidth) {
      F32 lanes[kWidth];
      for (int r = 0; r < kWidth; ++r) lanes[r] = load(rows + r * weight.n_cols + k);
      transpose(lanes);
      for (int j = 0; j < kWidth; ++j) store(to + (k + j) * kPanelRows, lanes[j]);
    }
  }
  for (; k < n; k += kWidth) {
    F32 lanes[kWidth] = {};
    const int64_t left = n - k < kWidth ? n - k : kWidth;
    for (int64_t r = 0; r < count; ++r) lanes[r] = load_part(rows + r * weight.n_cols + k, left);
    transpose(lanes);
    for (int64_t j = 0; j < left; ++j) store(to + (k + j) * kPanelRows, lanes[j]);
  }
}

// The same of a row of tiles, where lanes are rows already.
template <typename Format>
inline void fill_lanes_from_tiles(const Tensor& weight, int64_t first, int64_t from, int64_t n,
                                  float* to) {
  const uint8_t* tiles = tile_row(weight, first);
  const int lanes = static_cast<int>(first % kTileRows) / kWidth;
  for (int64_t k = from; k < from + n; k += kTileColumns) {
    const TilePart at = part_at<Format>(tiles, k);
    I32 words[8];
    Format::plain_levels(at.tile, at.part, lanes, words);
    LaneScales scales[Format::kScales];
    for (int i = 0; i < Format::kScales; ++i) {
      scales[i] = Format::scales(at.tile, at.part, lanes, i);
    }
    for (int g = 0; g < 8; ++g) {
      const LaneScales& own = scales[g * Format::kScales / 8];
      for (int i = 0; i < 4; ++i, to += kPanelRows) {
        F32 values = float_levels<Format>(words[g], i) * own.d;
        if constexpr (kHasM<Format>) values += own.m;
        store(to, values);
      }
    }
  }
}

inline void fill_lanes(const Tensor& weight, int64_t first, int64_t count, int64_t from, int64_t n,
                       float* to) {
  by_format(
      weight.dtype,
      [&](auto format) {
        fill_lanes_from_values<decltype(format)>(weight, first, count, from, n, to);
      },
      Never(),
      [&](auto format) { fill_lanes_from_tiles<decltype(format)>(weight, first, from, n, to); });
}

// Rows first..first+count-1 and zeros for those that are missing.
inline void fill_panel(const Tensor& weight, int64_t first, int64_t count, int64_t from, int64_t n,
                       float* panel) {
  for (int v = 0; v < kPanelVectors; ++v, panel += kWidth) {
    const int64_t left = count - v * kWidth;
    if (left > 0) {
      fill_lanes(weight, first + v * kWidth, left < kWidth ? left : kWidth, from, n, panel);
    } else {
      for (int64_t k = 0; k < n; ++k) store(panel + k * kPanelRows, F32{});
    }
  }
}

// Weights of a panel of so many rows, as they lie in memory; see fill_panel.
inline Ahead ahead_of_panel(const Tensor& weight, int64_t first, int64_t from, int64_t n,
                            int64_t rows, int64_t calls) {
  const int64_t stride = row_bytes(weight.dtype, weight.n_cols);
  const int64_t before = row_bytes(weight.dtype, from), bytes = row_bytes(weight.dtype, n);
  if (!in_tiles(weight)) {
    return Ahead(weight.data + first * stride + before, rows, bytes, stride, calls);
  }
  return Ahead(tile_row(weight, first) + kTileRows * before, (rows + kTileRows - 1) / kTileRows,
               kTileRows * bytes, kTileRows * stride, calls);
}

// Rows of floats, `stride` floats apart
struct FloatRows {
  float* data;
  int64_t stride;
  float* at(int64_t row, int64_t column) const { return data + row * stride + column; }
};

inline void store_panel_row(const F32 (&totals)[kPanelVectors], bool first, int64_t count,
                            float* out) {
  if (count == kPanelRows) {
    for (int v = 0; v < kPanelVectors; ++v, out += kWidth) {
      store(out, first ? totals[v] : load(out) + totals[v]);
    }
    return;
  }
  float lanes[kPanelRows];
  for (int v = 0; v < kPanelVectors; ++v) store(lanes + v * kWidth, totals[v]);
  for (int64_t i = 0; i < count; ++i) out[i] = first ? lanes[i] : out[i] + lanes[i];
}

// y[token..][first..] (+)= panel [n][kPanelRows] . x[token..][from..from+n-1]
template <int kTokens>
inline void panel_times_a32(const float* panel, const FloatRows& x, int64_t token, int64_t from,
                            int64_t n, const FloatRows& y, int64_t first, int64_t count,
                            Ahead& next) {
  const float* values[kTokens];
  for (int t = 0; t < kTokens; ++t) values[t] = x.at(token + t, from);
  F32 totals[kTokens][kPanelVectors] = {};
  for (int64_t k = 0; k < n;) {
    next.ask();
    const int64_t until = n - k < kColumnsPerAsk ? n : k + kColumnsPerAsk;
    for (; k < until; ++k, panel += kPanelRows) {
      F32 weights[kPanelVectors];
      for (int v = 0; v < kPanelVectors; ++v) weights[v] = load(panel + v * kWidth);
      for (int t = 0; t < kTokens; ++t) {
        for (int v = 0; v < kPanelVectors; ++v) totals[t][v] += weights[v] * values[t][k];
      }
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    store_panel_row(totals[t], from == 0, count, y.at(token + t, first));
  }
}

// scratch: float [kPanelColumns][kPanelRows]
inline void matmul_a32_by_panels(const Tensor& x, const Tensor& weight, const Tensor& y,
                                 int64_t tokens, Range rows, float* panel) {
  const int64_t pieces = (x.n_cols + kPanelColumns - 1) / kPanelColumns;
  const int64_t block = kFormats[static_cast<int>(weight.dtype)].block_size;
  const int64_t unit = block < kTileColumns ? kTileColumns : block;
  const int64_t piece = (x.n_cols / pieces + unit - 1) / unit * unit;  // whole blocks, about equal
  const int64_t groups = (tokens + kPanelTokensA32 - 1) / kPanelTokensA32;
  const FloatRows from_x = {row<float>(x, 0), x.n_cols}, to_y = {row<float>(y, 0), y.n_cols};
  for (int64_t first = rows.begin; first < rows.end; first += kPanelRows) {
    const int64_t left = rows.end - first, count = left < kPanelRows ? left : kPanelRows;
    for (int64_t from = 0; from < x.n_cols; from += piece) {
      const int64_t n = x.n_cols - from < piece ? x.n_cols - from : piece;
      fill_panel(weight, first, count, from, n, panel);
      const bool last = from + n == x.n_cols;
      Ahead next = ahead_of_panel(weight, first + (last ? kPanelRows : 0), last ? 0 : from + n, n,
                                  kPanelRows, groups * ((n + kColumnsPerAsk - 1) / kColumnsPerAsk));
      in_groups<kPanelTokensA32>(tokens, [&](int64_t token, auto group) {
        panel_times_a32<group()>(panel, from_x, token, from, n, to_y, first, count, next);
      });
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
