// Q5_0: float16 d, 32 fifth bits, 16 bytes of nibbles (low ones first); value = d * (level - 16). A
// tile has 16 d, a group of fifth bits (bit g of byte b: column 4g + b), then nibbles.
#pragma once

#include "quant/fifth_bits.h"

namespace llm {
namespace LLM_ISA {

struct Q5_0Tiles : UnsignedTiles<Q5_0Tiles> {
  static constexpr Levels kLevels = Levels::kFives;
  static constexpr int kScales = 1, kZero = 16;
  static constexpr bool kHasMinimum = false;
  static constexpr int kTileBytes = kTileRows * (2 + 4 + 32 / 2), kParts = 1;

  static void levels(const uint8_t* tile, int, int lanes, I32 (&words)[8]) {
    unpack_tile_fives(tile + 2 * kTileRows, lanes, words);
  }
  static LaneScales scales(const uint8_t* tile, int, int lanes, int) {
    return {load_halves(tile, lanes), F32{}};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const int level = tile_five(tile + 2 * kTileRows, row, column);
    return half_at(tile + 2 * row) * static_cast<float>(level - 16);
  }
};

struct Q5_0Rows {
  typedef Q5_0Tiles Tiles;
  static constexpr int kBytes = 2 + 4 + 32 / 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    blocks_to_tile<1, 0>(blocks, row, tile);
    fives_to_tile(blocks.behind(2), row, tile + 2 * kTileRows);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
