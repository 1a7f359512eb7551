// Q5_1: float16 d, float16 m, 32 fifth bits, 16 bytes of nibbles (low ones first); value = d *
// level + m. A tile has 16 d, 16 m, then levels as Q5_0 has them.
#pragma once

#include "quant/fifth_bits.h"

namespace llm {
namespace LLM_ISA {

struct Q5_1Tiles : UnsignedTiles<Q5_1Tiles> {
  static constexpr Levels kLevels = Levels::kFives;
  static constexpr int kScales = 1, kZero = 0;
  static constexpr bool kHasMinimum = true;
  static constexpr int kTileBytes = kTileRows * (2 + 2 + 4 + 32 / 2), kParts = 1;

  static void levels(const uint8_t* tile, int, int lanes, I32 (&words)[8]) {
    unpack_tile_fives(tile + 4 * kTileRows, lanes, words);
  }
  static LaneScales scales(const uint8_t* tile, int, int lanes, int) {
    return {load_halves(tile, lanes), load_halves(tile + 2 * kTileRows, lanes)};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const int level = tile_five(tile + 4 * kTileRows, row, column);
    const float m = half_at(tile + 2 * (kTileRows + row));
    return half_at(tile + 2 * row) * static_cast<float>(level) + m;
  }
};

struct Q5_1Rows {
  typedef Q5_1Tiles Tiles;
  static constexpr int kBytes = 2 + 2 + 4 + 32 / 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    blocks_to_tile<2, 0>(blocks, row, tile);
    fives_to_tile(blocks.behind(4), row, tile + 4 * kTileRows);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
