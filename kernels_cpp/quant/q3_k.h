// Q3_K: 32 bytes of third bits (bit k of byte i: level 32k + i), 64 bytes of lower bits (bits 2p..
// of byte i of 32 bytes h: level 128h + 32p + i), 12 bytes of 6-bit scales (lower four bits of
// scales 0-7 in the low nibbles of bytes 0-7, of 8-15 in the high ones; upper two bits of scale 4p
// + j are bits 2p.. of byte 8 + j), float16 d. value = d * (scale - 32) * (level - 4). A part of a
// tile has two arrays of 16 scales, of 16 columns each, a group of third bits, then two groups of
// lower bits.
#pragma once

#include "quant/super_block.h"

namespace llm {
namespace LLM_ISA {

struct Q3_KTiles : SuperBlock<1, kTileRows * (2 + 4 + 8)>, UnsignedTiles<Q3_KTiles> {
  static constexpr Levels kLevels = Levels::kFives;
  static constexpr int kScales = 2, kZero = 4;
  static constexpr bool kHasMinimum = false;
  static constexpr int kThird = 2 * kTileRows, kLower = kThird + kGroupBytes;

  static void levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
    const uint8_t* from = part_of(tile, part);
    const I32 thirds = load_words(from + kThird, lanes);
    unpack_twos(from + kLower, lanes, words);
    for (int g = 0; g < 8; ++g) words[g] |= move_bits(thirds, g, 2, 1);
  }
  static LaneScales scales(const uint8_t* tile, int part, int lanes, int scale) {
    return signed_scale(tile, part_of(tile, part) + kTileRows * scale, lanes);
  }
  static float value(const uint8_t* tile, int row, int column) {
    const uint8_t* part = part_of(tile, column / 32);
    const int j = column % 32, third = part[kThird + 4 * row + j % 4] >> (j / 4) & 1;
    const int level = two_bits(part + kLower, row, j) | third << 2;
    return signed_value(tile, part + j / 16 * kTileRows, row, level - 4);
  }
};

struct Q3_KRows {
  typedef Q3_KTiles Tiles;
  static constexpr int kBytes = 256 / 8 + 256 / 4 + 12 + 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    put_half(blocks.behind(108), row, tile);
    put_scales(blocks.behind(96), row, tile);
    FourWords thirds[8], lower[8];
    turn_words(blocks, thirds);
    for (int h = 0; h < 2; ++h) {
      turn_words(blocks.behind(32 + 32 * h), lower);
      for (int p = 0; p < 4; ++p) {
        uint8_t* part = Tiles::part_of(tile, 4 * h + p);
        put_bits(thirds, 4 * h + p, row, part + Tiles::kThird);
        put_twos(lower, 2 * p, row, part + Tiles::kLower);
      }
    }
  }

  static void put_scales(const Blocks& packed, int row, uint8_t* tile) {
    const FourWords lower[2] = {first_words(packed), first_words(packed.behind(4))};
    const FourWords upper = first_words(packed.behind(8));
    for (int i = 0; i < 4; ++i) {
      const FourWords low = lower[i % 2] >> (i / 2 * 4) & 0x0f0f0f0f;
      const FourWords high = upper >> 2 * i & 0x03030303;
      // 32 less, a byte each: none borrows of the next one, whose highest bit is set
      const FourWords scales = ((low | high << 4 | 0x80808080) - 0x20202020) ^ 0x80808080;
      put_two_scales<Tiles>(scales, i, row, tile);
    }
  }
};

}  // namespace LLM_ISA
}  // namespace llm
