// Q2_K: 16 bytes of 4-bit scales (low) and minimums (high), of 16 columns each, 64 bytes of levels
// (bits 2p.. of byte i of 32 bytes h: level 128h + 32p + i), float16 d and dmin. value = d * scale
// * level - dmin * minimum. A part of a tile has the two bytes of scales and minimums, then two
// groups of levels.
#pragma once

#include "quant/super_block.h"

namespace llm {
namespace LLM_ISA {

struct Q2_KTiles : SuperBlock<2, kTileRows * (2 + 8)>, UnsignedTiles<Q2_KTiles> {
  static constexpr Levels kLevels = Levels::kFives;
  static constexpr int kScales = 2, kZero = 0;
  static constexpr bool kHasMinimum = true;
  static constexpr int kGroups = 2 * kTileRows;

  static void levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
    unpack_twos(part_of(tile, part) + kGroups, lanes, words);
  }
  static LaneScales scales(const uint8_t* tile, int part, int lanes, int scale) {
    const uint8_t* both = part_of(tile, part) + kTileRows * scale;
    const I32 packed = (I32)widen_u8(both + lanes * kWidth);
    const F32 d = load_halves(tile, lanes), dmin = load_halves(tile + 2 * kTileRows, lanes);
    return {d * to_f32(packed & 15), -dmin * to_f32(packed >> 4)};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const uint8_t* part = part_of(tile, column / 32);
    const uint8_t both = part[column % 32 / 16 * kTileRows + row];
    const float d = half_at(tile + 2 * row), dmin = half_at(tile + 2 * (kTileRows + row));
    const int level = two_bits(part + kGroups, row, column % 32);
    return d * (both & 15) * static_cast<float>(level) - dmin * (both >> 4);
  }
};

struct Q2_KRows {
  typedef Q2_KTiles Tiles;
  static constexpr int kBytes = 16 + 256 / 4 + 2 + 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    blocks_to_tile<2, 0>(blocks.behind(80), row, tile);
    FourWords both[4];
    turn_words(blocks, both);
    for (int i = 0; i < 4; ++i) put_two_scales<Tiles>(both[i], i, row, tile);
    for (int h = 0; h < 2; ++h) {
      FourWords levels[8];
      turn_words(blocks.behind(16 + 32 * h), levels);
      for (int p = 0; p < 4; ++p) {
        put_twos(levels, 2 * p, row, Tiles::part_of(tile, 4 * h + p) + Tiles::kGroups);
      }
    }
  }
};

}  // namespace LLM_ISA
}  // namespace llm
