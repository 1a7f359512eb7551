// Q4_1: float16 d, float16 m, 16 bytes of nibbles (low ones first); value = d * level + m.
#pragma once

#include "quant/nibble_tiles.h"
#include "quant/to_tile.h"

namespace llm {
namespace LLM_ISA {

struct Q4_1Rows {
  static constexpr int kBytes = 2 + 2 + 32 / 2;

  static void floats(const uint8_t* block, F32 (&out)[32 / kWidth]) {
    to_floats<false>(unpack_nibbles(block + 4), out);
    const float d = half_at(block), m = half_at(block + 2);
    for (F32& values : out) values = values * d + m;
  }

  static void to_tile(const uint8_t* block, int row, uint8_t* tile) {
    block_to_tile<2, 4>(block, row, tile);
  }
};

// As tiles: 16 float16 d and 16 float16 m, a row each, then nibbles.
struct Q4_1Tiles : NibbleTiles<64> {
  static constexpr int kTileBytes = 320;
  static constexpr bool kHasMinimum = true;

  static I32 zeros(const uint8_t*, int) { return I32{}; }
  static LaneScales scales(const uint8_t* tile, int part) {
    const auto* halves = reinterpret_cast<const Half*>(tile) + part * kWidth;
    return {load(halves), load(halves + kTileRows)};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const int level = tile_nibble(tile + kHeader, row, column);
    return half_at(tile + 2 * row) * static_cast<float>(level) + half_at(tile + 32 + 2 * row);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
