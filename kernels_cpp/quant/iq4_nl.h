// IQ4_NL: float16 d, 16 bytes of 4-bit codes (low ones first); value = d * table[code].
#pragma once

#include "quant/code_table.h"

namespace llm {
namespace LLM_ISA {

struct IQ4_NLTiles : SignedTiles<IQ4_NLTiles> {
  static constexpr int kTileBytes = kTileRows * (2 + 32 / 2), kParts = 1;

  static void plain_levels(const uint8_t* tile, int, int lanes, I32 (&words)[8]) {
    look_up_nibbles(kNonlinear, tile + 2 * kTileRows, lanes, words);
  }
  static LaneScales scales(const uint8_t* tile, int, int lanes, int) {
    return {load_halves(tile, lanes), F32{}};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const int code = tile_nibble(tile + 2 * kTileRows, row, column);
    return half_at(tile + 2 * row) * static_cast<float>(kNonlinear.numbers[code]);
  }
};

struct IQ4_NLRows {
  typedef IQ4_NLTiles Tiles;
  static constexpr int kBytes = 2 + 32 / 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    blocks_to_tile<1, 4>(blocks, row, tile);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
