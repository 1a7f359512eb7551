// Q6_K: 128 bytes of lower nibbles (byte i of 64 bytes h: level 128h + i low, 128h + 64 + i high),
// 64 bytes of upper bits (bits 2p.. of byte i of 32 bytes h: level 128h + 32p + i), 16 int8 scales,
// float16 d. value = d * scale * (level - 32). A part of a tile has two arrays of 16 scales, of 16
// columns each, two groups of upper bits, then nibbles.
#pragma once

#include "quant/super_block.h"

namespace llm {
namespace LLM_ISA {

struct Q6_KTiles : SuperBlock<1, kTileRows * (2 + 8 + 32 / 2)>, UnsignedTiles<Q6_KTiles> {
  static constexpr Levels kLevels = Levels::kSixes;
  static constexpr int kScales = 2, kZero = 32;
  static constexpr bool kHasMinimum = false;
  static constexpr int kUpper = 2 * kTileRows, kLower = kUpper + 2 * kGroupBytes;

  static void levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
    const uint8_t* from = part_of(tile, part);
    I32 upper[8];
    unpack_twos<4>(from + kUpper, lanes, upper);
    unpack_tile_nibbles(from + kLower, lanes, words);
    for (int g = 0; g < 8; ++g) words[g] |= upper[g];
  }
  static LaneScales scales(const uint8_t* tile, int part, int lanes, int scale) {
    return signed_scale(tile, part_of(tile, part) + kTileRows * scale, lanes);
  }
  static float value(const uint8_t* tile, int row, int column) {
    const uint8_t* part = part_of(tile, column / 32);
    const int upper = two_bits(part + kUpper, row, column % 32);
    const int level = tile_nibble(part + kLower, row, column % 32) | upper << 4;
    return signed_value(tile, part + column % 32 / 16 * kTileRows, row, level - 32);
  }
};

struct Q6_KRows {
  typedef Q6_KTiles Tiles;
  static constexpr int kBytes = 256 / 2 + 256 / 4 + 16 + 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    put_half(blocks.behind(208), row, tile);
    FourWords scales[4];
    turn_words(blocks.behind(192), scales);
    for (int i = 0; i < 4; ++i) put_two_scales<Tiles>(scales[i], i, row, tile);
    for (int h = 0; h < 2; ++h) {
      FourWords lower[2][8], upper[8];
      for (int i = 0; i < 2; ++i) turn_words(blocks.behind(64 * h + 32 * i), lower[i]);
      turn_words(blocks.behind(128 + 32 * h), upper);
      for (int p = 0; p < 4; ++p) {
        uint8_t* part = Tiles::part_of(tile, 4 * h + p);
        put_twos(upper, 2 * p, row, part + Tiles::kUpper);
        put_nibbles(lower[p % 2], p / 2 * 4, row, part + Tiles::kLower);
      }
    }
  }
};

}  // namespace LLM_ISA
}  // namespace llm
