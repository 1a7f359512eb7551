// Q5_K: as Q4_K with 32 bytes of fifth bits before the nibbles: bit k of byte i belongs to level
// 32k + i. A part of a tile has 16 scales, 16 minimums, a group of fifth bits, then nibbles.
#pragma once

#include "quant/fifth_bits.h"
#include "quant/super_block.h"

namespace llm {
namespace LLM_ISA {

struct Q5_KTiles : SuperBlock<2, kTileRows * (2 + 4 + 32 / 2)>, UnsignedTiles<Q5_KTiles> {
  static constexpr Levels kLevels = Levels::kFives;
  static constexpr int kScales = 1, kZero = 0;
  static constexpr bool kHasMinimum = true;

  static void levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
    unpack_tile_fives(part_of(tile, part) + 2 * kTileRows, lanes, words);
  }
  static LaneScales scales(const uint8_t* tile, int part, int lanes, int) {
    return scale_and_minimum(tile, part_of(tile, part), lanes);
  }
  static float value(const uint8_t* tile, int row, int column) {
    const uint8_t* part = part_of(tile, column / 32);
    return value_with_minimum(tile, part, row, tile_five(part + 2 * kTileRows, row, column % 32));
  }
};

struct Q5_KRows {
  typedef Q5_KTiles Tiles;
  static constexpr int kBytes = 2 + 2 + 12 + 256 / 8 + 256 / 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    blocks_to_tile<2, 0>(blocks, row, tile);
    put_six_bits<Tiles>(blocks.behind(4), row, tile);
    FourWords fifths[8], levels[8];
    turn_words(blocks.behind(16), fifths);
    for (int j = 0; j < kSuperParts / 2; ++j) {
      turn_words(blocks.behind(48 + 32 * j), levels);
      for (int p = 0; p < 2; ++p) {
        uint8_t* groups = Tiles::part_of(tile, 2 * j + p) + 2 * kTileRows;
        put_bits(fifths, 2 * j + p, row, groups);
        put_nibbles(levels, 4 * p, row, groups + kGroupBytes);
      }
    }
  }
};

}  // namespace LLM_ISA
}  // namespace llm
