#include "quantizer/to_tiles.h"

#include <cstring>
#include <stdexcept>

namespace llm {
namespace {

constexpr int kWord = 4, kHalf = 2;  // bytes

// Of a block: float16 scales, then words. A tile has each scale and each word of its rows together.
void copy_block(const uint8_t* block, int scales, int words, int row, uint8_t* tile) {
  for (int i = 0; i < scales; ++i, block += kHalf, tile += kHalf * kTileRows) {
    std::memcpy(tile + kHalf * row, block, kHalf);
  }
  for (int i = 0; i < words; ++i, block += kWord, tile += kWord * kTileRows) {
    std::memcpy(tile + kWord * row, block, kWord);
  }
}

}  // namespace

DType tiles_of(DType rows) {
  switch (rows) {
    case DType::kQ4_0:
      return DType::kQ4_0Tiles;
    case DType::kQ4_1:
      return DType::kQ4_1Tiles;
    case DType::kQ8_0:
      return DType::kInt8;
    default:
      throw std::invalid_argument("rows of this type have no tiles");
  }
}

void to_tiles(DType type, const uint8_t* rows, int64_t n_rows, int64_t n_cols, uint8_t* tiles) {
  const int scales = type == DType::kQ4_1 ? 2 : 1, words = type == DType::kQ8_0 ? 8 : 4;
  const int64_t block = kHalf * scales + kWord * words, stride = n_cols / 32 * block;
  for (int64_t first = 0; first < n_rows; first += kTileRows, rows += kTileRows * stride) {
    const int64_t left = n_rows - first;
    const int count = static_cast<int>(left < kTileRows ? left : kTileRows);
    for (int64_t at = 0; at < stride; at += block, tiles += kTileRows * block) {
      if (count < kTileRows) std::memset(tiles, 0, kTileRows * block);
      for (int r = 0; r < count; ++r) copy_block(rows + r * stride + at, scales, words, r, tiles);
    }
  }
}

}  // namespace llm
