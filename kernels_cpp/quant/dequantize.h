// A row of weights, in any format, as float32.
#pragma once

#include "plan/op.h"
#include "quant/formats.h"

namespace llm {
namespace LLM_ISA {

template <typename Format>
inline void dequantize_values(const uint8_t* from, int64_t n, float* to) {
  const auto* values = reinterpret_cast<const typename Format::Value*>(from);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(to + i, load(values + i));
  if (i < n) store_part(to + i, load_part(values + i, n - i), n - i);
}

template <typename Format>
inline void dequantize_tiles(const uint8_t* tiles, int row, int64_t n, float* to) {
  constexpr int kBlock = kTileColumns * Format::kParts;
  for (int64_t i = 0; i < n; i += kBlock, tiles += Format::kTileBytes) {
    for (int j = 0; j < kBlock; ++j) to[i + j] = Format::value(tiles, row, j);
  }
}

// A block at a time becomes the first rows of a tile: few rows are read so, of tables on disk.
template <typename Format>
inline void dequantize_rows(const uint8_t* from, int64_t n, float* to) {
  typedef typename Format::Tiles Tiles;
  constexpr int kBlock = kTileColumns * Tiles::kParts;
  uint8_t tile[Tiles::kTileBytes];
  for (int64_t i = 0; i < n; i += kBlock, from += Format::kBytes) {
    Format::to_tile({{from, from, from, from}}, 0, tile);
    dequantize_tiles<Tiles>(tile, 0, kBlock, to + i);
  }
}

// n values of a row, from `column` on, a multiple of the format's block
inline void dequantize(const Tensor& weight, int64_t index, int64_t column, int64_t n, float* to) {
  const int64_t before = row_bytes(weight.dtype, column);
  const uint8_t* from = weight.data + index * row_bytes(weight.dtype, weight.n_cols) + before;
  const uint8_t* tiles = tile_row(weight, index) + kTileRows * before;
  const int in_tile = static_cast<int>(index % kTileRows);
  by_format(
      weight.dtype, [&](auto format) { dequantize_values<decltype(format)>(from, n, to); },
      [&](auto format) { dequantize_rows<decltype(format)>(from, n, to); },
      [&](auto format) { dequantize_tiles<decltype(format)>(tiles, in_tile, n, to); });
}

}  // namespace LLM_ISA
}  // namespace llm
