// Q4_0: float16 d, 16 bytes of nibbles (low ones first); value = d * (level - 8).
#pragma once

#include "quant/tiles.h"

namespace llm {
namespace LLM_ISA {

struct Q4_0Tiles : NibbleTiles<Q4_0Tiles> {
  static constexpr int kTileBytes = kTileRows * (2 + 32 / 2), kParts = 1;
  static constexpr bool kHasMinimum = false;

  static const uint8_t* groups(const uint8_t* tile, int) { return tile + 2 * kTileRows; }
  static I32 zeros(const uint8_t*, int, int) { return I32{} + 4 * 8; }
  static LaneScales scales(const uint8_t* tile, int, int lanes, int) {
    const F32 d = load_halves(tile, lanes);
    return {d, d * -8.0f};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const int level = tile_nibble(groups(tile, 0), row, column);
    return half_at(tile + 2 * row) * static_cast<float>(level - 8);
  }
};

struct Q4_0Rows {
  typedef Q4_0Tiles Tiles;
  static constexpr int kBytes = 2 + 32 / 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    blocks_to_tile<1, 4>(blocks, row, tile);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
