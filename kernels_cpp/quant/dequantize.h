// A row of weights, in any format, as float32.
#pragma once

#include "plan/op.h"
#include "quant/bf16.h"
#include "quant/f16.h"
#include "quant/f32.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_tiles.h"
#include "quant/q8_0.h"

namespace llm {
namespace LLM_ISA {

template <typename Value>
inline void dequantize_values(const uint8_t* from, int64_t n, float* to) {
  const auto* values = reinterpret_cast<const Value*>(from);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(to + i, load(values + i));
  if (i < n) store_part(to + i, load_part(values + i, n - i), n - i);
}

template <typename Format>
inline void dequantize_blocks(const uint8_t* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += 32, from += Format::kBytes) {
    F32 values[32 / kWidth];
    Format::floats(from, values);
    for (int j = 0; j < 32 / kWidth; ++j) store(to + i + j * kWidth, values[j]);
  }
}

template <typename Format>
inline void dequantize_tiles(const uint8_t* tiles, int row, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += 32, tiles += Format::kTileBytes) {
    for (int j = 0; j < 32; ++j) to[i + j] = Format::value(tiles, row, j);
  }
}

// n values of a row, from `column` on, a multiple of the format's block
inline void dequantize(const Tensor& weight, int64_t index, int64_t column, int64_t n, float* to) {
  const uint8_t* from = weight.data + index * row_bytes(weight.dtype, weight.n_cols) +
                        row_bytes(weight.dtype, column);
  const int in_tile = static_cast<int>(index % kTileRows);
  const uint8_t* tiles = tile_row(weight, index) + kTileRows * row_bytes(weight.dtype, column);
  switch (weight.dtype) {
    case DType::kF32:
      return dequantize_values<F32Format::Value>(from, n, to);
    case DType::kF16:
      return dequantize_values<F16Format::Value>(from, n, to);
    case DType::kBF16:
      return dequantize_values<BF16Format::Value>(from, n, to);
    case DType::kQ4_0:
      return dequantize_blocks<Q4_0>(from, n, to);
    case DType::kQ4_1:
      return dequantize_blocks<Q4_1>(from, n, to);
    case DType::kQ8_0:
      return dequantize_blocks<Q8_0>(from, n, to);
    case DType::kInt4:
      return dequantize_tiles<Int4>(tiles, in_tile, n, to);
    case DType::kInt8:
      return dequantize_tiles<Int8>(tiles, in_tile, n, to);
    case DType::kQ4_0Tiles:
      return dequantize_tiles<Q4_0Tiles>(tiles, in_tile, n, to);
    case DType::kQ4_1Tiles:
      return dequantize_tiles<Q4_1Tiles>(tiles, in_tile, n, to);
    case DType::kA8:
    case DType::kI8:
      return;  // no weight has it
  }
}

}  // namespace LLM_ISA
}  // namespace llm
