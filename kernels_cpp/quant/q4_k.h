// Q4_K: float16 d and dmin, 12 bytes of 6-bit scales and minimums, 256 nibbles: byte i of 32 bytes
// j holds level 64j + i low and 64j + 32 + i high. value = d * scale * level - dmin * minimum. A
// part of a tile has 16 scales, 16 minimums, then nibbles.
#pragma once

#include "quant/super_block.h"

namespace llm {
namespace LLM_ISA {

struct Q4_KTiles : SuperBlock<2, kTileRows * (2 + 32 / 2)>, NibbleTiles<Q4_KTiles> {
  static constexpr bool kHasMinimum = true;

  static const uint8_t* groups(const uint8_t* tile, int part) {
    return part_of(tile, part) + 2 * kTileRows;
  }
  static I32 zeros(const uint8_t*, int, int) { return I32{}; }
  static LaneScales scales(const uint8_t* tile, int part, int lanes, int) {
    return scale_and_minimum(tile, part_of(tile, part), lanes);
  }
  static float value(const uint8_t* tile, int row, int column) {
    const uint8_t* part = part_of(tile, column / 32);
    return value_with_minimum(tile, part, row, tile_nibble(part + 2 * kTileRows, row, column % 32));
  }
};

struct Q4_KRows {
  typedef Q4_KTiles Tiles;
  static constexpr int kBytes = 2 + 2 + 12 + 256 / 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    blocks_to_tile<2, 0>(blocks, row, tile);
    put_six_bits<Tiles>(blocks.behind(4), row, tile);
    for (int j = 0; j < kSuperParts / 2; ++j) {
      FourWords levels[8];
      turn_words(blocks.behind(16 + 32 * j), levels);
      for (int p = 0; p < 2; ++p) {
        put_nibbles(levels, 4 * p, row, Tiles::part_of(tile, 2 * j + p) + 2 * kTileRows);
      }
    }
  }
};

}  // namespace LLM_ISA
}  // namespace llm
