// IQ4_XS: float16 d, 16 bits with the upper two bits of eight scales, 4 bytes with their lower
// nibbles (of scale 2j low, of 2j + 1 high), 256 4-bit codes, 16 bytes for 32 columns (low ones
// first). value = d * (scale - 32) * table[code]. A part of a tile has 16 scales, then codes.
#pragma once

#include "quant/code_table.h"
#include "quant/super_block.h"

namespace llm {
namespace LLM_ISA {

struct IQ4_XSTiles : SuperBlock<1, kTileRows * (1 + 32 / 2)>, SignedTiles<IQ4_XSTiles> {
  static void plain_levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
    look_up_nibbles(kNonlinear, part_of(tile, part) + kTileRows, lanes, words);
  }
  static LaneScales scales(const uint8_t* tile, int part, int lanes, int) {
    return signed_scale(tile, part_of(tile, part), lanes);
  }
  static float value(const uint8_t* tile, int row, int column) {
    const uint8_t* part = part_of(tile, column / 32);
    const int code = tile_nibble(part + kTileRows, row, column % 32);
    return signed_value(tile, part, row, kNonlinear.numbers[code]);
  }
};

struct IQ4_XSRows {
  typedef IQ4_XSTiles Tiles;
  static constexpr int kBytes = 2 + 2 + 4 + 256 / 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    put_half(blocks, row, tile);
    for (int i = 0; i < kSuperParts; ++i) {
      uint8_t* part = Tiles::part_of(tile, i);
      for (int r = 0; r < kRowsAtOnce; ++r) {
        const uint8_t* block = blocks.of[r];
        const int low = block[4 + i / 2] >> (i % 2 * 4) & 15,
                  high = block[2 + i / 4] >> (i % 4 * 2) & 3;
        part[row + r] = static_cast<uint8_t>((low | high << 4) - 32);
      }
      blocks_to_tile<0, 4>(blocks.behind(8 + 16 * i), row, part + kTileRows);
    }
  }
};

}  // namespace LLM_ISA
}  // namespace llm
