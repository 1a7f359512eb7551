#include "quantizer/to_tiles.h"

#include <cstring>
#include <stdexcept>

#include "quant/formats.h"

namespace llm {
namespace {

template <typename Format>
void rows_to_tiles(const FormatRow& format, const uint8_t* rows, int64_t n_rows, int64_t n_cols,
                   uint8_t* tiles) {
  const int64_t stride = n_cols / format.block_size * format.block_bytes;
  const int64_t tile = kTileRows * kFormats[static_cast<int>(format.tiles)].block_bytes;
  for (int64_t first = 0; first < n_rows; first += kTileRows, rows += kTileRows * stride) {
    const int64_t left = n_rows - first;
    const int count = static_cast<int>(left < kTileRows ? left : kTileRows);
    for (int64_t at = 0; at < stride; at += format.block_bytes, tiles += tile) {
      if (count < kTileRows) std::memset(tiles, 0, tile);
      for (int r = 0; r < count; ++r) Format::to_tile(rows + r * stride + at, r, tiles);
    }
  }
}

}  // namespace

void to_tiles(DType type, const uint8_t* rows, int64_t n_rows, int64_t n_cols, uint8_t* tiles) {
  const FormatRow& format = kFormats[static_cast<int>(type)];
  if (format.layout != Layout::kRows)
    throw std::invalid_argument("rows of this type have no tiles");
  LLM_ISA::by_format(
      type, LLM_ISA::Never(),
      [&](auto of) { rows_to_tiles<decltype(of)>(format, rows, n_rows, n_cols, tiles); },
      LLM_ISA::Never());
}

}  // namespace llm
