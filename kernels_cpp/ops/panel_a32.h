// Products of many tokens in float32: a strip of weights, of any format, becomes a panel in the
// cache, a row a lane, and meets all tokens; each activation is spread over the lanes.
#pragma once

#include "ops/matmul_tiles.h"
#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

constexpr int kPanelVectors = 2;
constexpr int kPanelRows = kPanelVectors * kWidth;
constexpr int kPanelColumns = 768;                      // at most at a time: the panel stays in L2
constexpr int kPanelTokensA32 = kWidth == 16 ? 12 : 6;  // two accumulators each
constexpr size_t kPanelBytesA32 = sizeof(float) * kPanelRows * kPanelColumns;

// lanes[i]: column i of kWidth rows -> to [n][kPanelRows]
inline void store_columns(const F32 (&lanes)[kWidth], int64_t n, float* to) {
  if (n >= kWidth) {
    for (int j = 0; j < kWidth; ++j) store(to + j * kPanelRows, lanes[j]);
  } else {
    for (int64_t j = 0; j < n; ++j) store(to + j * kPanelRows, lanes[j]);
  }
}

// `count` rows of a float format, columns from..from+n-1 -> lanes of `to` [n][kPanelRows]
template <typename Value>
inline void fill_lanes_from_values(const Tensor& weight, int64_t first, int64_t count, int64_t from,
                                   int64_t n, float* to) {
  const Value* rows = row<const Value>(weight, first) + from;
  for (int64_t k = 0; k < n; k += kWidth) {
    F32 lanes[kWidth] = {};
    const int64_t left = n - k;
    for (int64_t r = 0; r < count; ++r) {
      const Value* values = rows + r * weight.n_cols + k;
      lanes[r] = left >= kWidth ? load(values) : load_part(values, left);
    }
    transpose(lanes);
    store_columns(lanes, left, to + k * kPanelRows);
  }
}

// The same of a part of a row of tiles, where lanes are rows already.
template <typename Format>
inline void fill_lanes_from_tiles(const Tensor& weight, int64_t first, int64_t from, int64_t n,
                                  float* to) {
  const uint8_t* tile = tile_row(weight, first) + from / 32 * Format::kTileBytes;
  const int part = static_cast<int>(first % kTileRows) / kWidth;
  for (int64_t k = 0; k < n; k += 32, tile += Format::kTileBytes) {
    I32 words[8];
    Format::plain_levels(tile, part, words);
    const LaneScales scales = Format::scales(tile, part);
    for (int g = 0; g < 8; ++g) {
      for (int i = 0; i < 4; ++i, to += kPanelRows) {
        F32 values = float_levels<Format>(words[g], i) * scales.d;
        if constexpr (Format::kNibbles) values += scales.m;
        store(to, values);
      }
    }
  }
}

inline void fill_lanes(const Tensor& weight, int64_t first, int64_t count, int64_t from, int64_t n,
                       float* to) {
  switch (weight.dtype) {
    case DType::kF32:
      return fill_lanes_from_values<F32Format::Value>(weight, first, count, from, n, to);
    case DType::kF16:
      return fill_lanes_from_values<F16Format::Value>(weight, first, count, from, n, to);
    case DType::kBF16:
      return fill_lanes_from_values<BF16Format::Value>(weight, first, count, from, n, to);
    case DType::kInt4:
      return fill_lanes_from_tiles<Int4>(weight, first, from, n, to);
    case DType::kInt8:
      return fill_lanes_from_tiles<Int8>(weight, first, from, n, to);
    case DType::kQ4_0Tiles:
      return fill_lanes_from_tiles<Q4_0Tiles>(weight, first, from, n, to);
    case DType::kQ4_1Tiles:
      return fill_lanes_from_tiles<Q4_1Tiles>(weight, first, from, n, to);
    default:
      return;  // nothing else is multiplied with
  }
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

// y[token..][first..] (+)= panel [n][kPanelRows] . x[token..][from..from+n-1]
template <int kTokens>
inline void panel_times_a32(const float* panel, const Tensor& x, int64_t token, int64_t from,
                            int64_t n, const Tensor& y, int64_t first, int64_t count) {
  const float* values[kTokens];
  for (int t = 0; t < kTokens; ++t) values[t] = row<const float>(x, token + t) + from;
  F32 totals[kTokens][kPanelVectors] = {};
  for (int64_t k = 0; k < n; ++k, panel += kPanelRows) {
    F32 weights[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) weights[v] = load(panel + v * kWidth);
    for (int t = 0; t < kTokens; ++t) {
      for (int v = 0; v < kPanelVectors; ++v) totals[t][v] += weights[v] * values[t][k];
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    float lanes[kPanelRows];
    float* out = row<float>(y, token + t) + first;
    for (int v = 0; v < kPanelVectors; ++v) store(lanes + v * kWidth, totals[t][v]);
    if (from > 0) {
      for (int64_t i = 0; i < count; ++i) out[i] += lanes[i];
    } else {
      std::memcpy(out, lanes, count * sizeof(float));
    }
  }
}

// scratch: float [kPanelColumns][kPanelRows]
inline void matmul_a32_by_panels(const Tensor& x, const Tensor& weight, const Tensor& y,
                                 int64_t tokens, Range rows, float* panel) {
  const int64_t pieces = (x.n_cols + kPanelColumns - 1) / kPanelColumns;
  const int64_t piece = (x.n_cols / pieces + 31) / 32 * 32;  // whole blocks, about equal
  for (int64_t first = rows.begin; first < rows.end; first += kPanelRows) {
    const int64_t left = rows.end - first, count = left < kPanelRows ? left : kPanelRows;
    for (int64_t from = 0; from < x.n_cols; from += piece) {
      const int64_t n = x.n_cols - from < piece ? x.n_cols - from : piece;
      fill_panel(weight, first, count, from, n, panel);
      in_groups<kPanelTokensA32>(tokens, [&](int64_t token, auto group) {
        panel_times_a32<group()>(panel, x, token, from, n, y, first, count);
      });
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
