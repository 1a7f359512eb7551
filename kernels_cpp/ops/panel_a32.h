// Products of many tokens in float32: a strip of weights, of any format, becomes a panel in the
// cache, a row a lane, and meets all tokens; each activation is spread over the lanes.
#pragma once

#include "ops/matmul_tiles.h"
#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

constexpr int kPanelVectors = 2;
constexpr int kPanelRows = kPanelVectors * kWidth;
constexpr int kPanelColumns = 512;                      // at a time: the panel stays in L2
constexpr int kPanelTokensA32 = kWidth == 16 ? 12 : 6;  // two accumulators each
constexpr size_t kPanelBytesA32 = sizeof(float) * kPanelRows * kPanelColumns;

// kWidth rows, columns from..from+n-1 -> lanes of `to` [n][kPanelRows]; missing rows become 0
inline void fill_lanes(const Tensor& weight, int64_t first, int64_t count, int64_t from, int64_t n,
                       float* to) {
  constexpr int kChunk = 32;
  for (int64_t k = 0; k < n; k += kChunk) {
    const int64_t columns = n - k < kChunk ? n - k : kChunk;
    float values[kWidth][kChunk] = {};
    for (int64_t r = 0; r < count; ++r) {
      dequantize(weight, first + r, from + k, columns, values[r]);
    }
    for (int64_t i = 0; i < columns; i += kWidth) {
      F32 lanes[kWidth];
      for (int r = 0; r < kWidth; ++r) lanes[r] = load(values[r] + i);
      transpose(lanes);
      const int64_t left = columns - i < kWidth ? columns - i : kWidth;
      for (int64_t j = 0; j < left; ++j) store(to + (k + i + j) * kPanelRows, lanes[j]);
    }
  }
}

// The same of a part of a row of tiles, whose lanes are rows already.
template <typename Format>
inline void fill_lanes_from_tiles(const Tensor& weight, int64_t first, int64_t from, int64_t n,
                                  float* to) {
  const uint8_t* tile = tile_row(weight, first) + from / 32 * Format::kTileBytes;
  const int part = static_cast<int>(first % kTileRows) / kWidth;
  for (int64_t k = 0; k < n; k += 32, tile += Format::kTileBytes) {
    I32 words[8];
    float_words(tile, part, words, static_cast<const Format*>(nullptr));
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

inline void fill_panel(const Tensor& weight, int64_t first, int64_t count, int64_t from, int64_t n,
                       float* panel) {
  for (int v = 0; v < kPanelVectors; ++v, first += kWidth, panel += kWidth) {
    const int64_t left = count - v * kWidth, rows = left < kWidth ? (left > 0 ? left : 0) : kWidth;
    if (rows == 0) {
      for (int64_t k = 0; k < n; ++k) store(panel + k * kPanelRows, F32{});
    } else if (weight.dtype == DType::kInt4) {
      fill_lanes_from_tiles<Int4>(weight, first, from, n, panel);
    } else if (weight.dtype == DType::kInt8) {
      fill_lanes_from_tiles<Int8>(weight, first, from, n, panel);
    } else {
      fill_lanes(weight, first, rows, from, n, panel);
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
  for (int64_t first = rows.begin; first < rows.end; first += kPanelRows) {
    const int64_t left = rows.end - first, count = left < kPanelRows ? left : kPanelRows;
    for (int64_t from = 0; from < x.n_cols; from += kPanelColumns) {
      const int64_t n = x.n_cols - from < kPanelColumns ? x.n_cols - from : kPanelColumns;
      fill_panel(weight, first, count, from, n, panel);
      int64_t t = 0;
      for (; t + kPanelTokensA32 <= tokens; t += kPanelTokensA32) {
        panel_times_a32<kPanelTokensA32>(panel, x, t, from, n, y, first, count);
      }
      for (; t < tokens; ++t) panel_times_a32<1>(panel, x, t, from, n, y, first, count);
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
