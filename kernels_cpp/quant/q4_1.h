// Q4_1: float16 d, float16 m, 16 bytes of nibbles (low ones first); value = d * level + m.
#pragma once

#include "quant/tiles.h"

namespace llm {
namespace LLM_ISA {

struct Q4_1Tiles : NibbleTiles<Q4_1Tiles> {
  static constexpr int kTileBytes = kTileRows * (2 + 2 + 32 / 2), kParts = 1;
  static constexpr bool kHasMinimum = true;

  static const uint8_t* groups(const uint8_t* tile, int) { return tile + 4 * kTileRows; }
  static I32 zeros(const uint8_t*, int, int) { return I32{}; }
  static LaneScales scales(const uint8_t* tile, int, int lanes, int) {
    return {load_halves(tile, lanes), load_halves(tile + 2 * kTileRows, lanes)};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const int level = tile_nibble(groups(tile, 0), row, column);
    const float m = half_at(tile + 2 * (kTileRows + row));
    return half_at(tile + 2 * row) * static_cast<float>(level) + m;
  }
};

struct Q4_1Rows {
  typedef Q4_1Tiles Tiles;
  static constexpr int kBytes = 2 + 2 + 32 / 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    blocks_to_tile<2, 4>(blocks, row, tile);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
