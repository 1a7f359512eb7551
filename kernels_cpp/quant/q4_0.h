// Q4_0: float16 d, 16 bytes of nibbles (low ones first); value = d * (level - 8).
#pragma once

#include "quant/nibble_tiles.h"
#include "quant/to_tile.h"

namespace llm {
namespace LLM_ISA {

struct Q4_0Rows {
  static constexpr int kBytes = 2 + 32 / 2;

  static void floats(const uint8_t* block, F32 (&out)[32 / kWidth]) {
    to_floats<false>(unpack_nibbles(block + 2), out);
    const float d = half_at(block);
    for (F32& values : out) values = (values - 8.0f) * d;
  }

  static void to_tile(const uint8_t* block, int row, uint8_t* tile) {
    block_to_tile<1, 4>(block, row, tile);
  }
};

// As tiles: 16 float16 d, a row each, then nibbles.
struct Q4_0Tiles : NibbleTiles<32> {
  static constexpr int kTileBytes = 288;
  static constexpr bool kHasMinimum = false;

  // In quarters, as of Int4
  static I32 zeros(const uint8_t*, int) { return I32{} + 4 * 8; }
  static LaneScales scales(const uint8_t* tile, int part) {
    const F32 d = load(reinterpret_cast<const Half*>(tile) + part * kWidth);
    return {d, d * -8.0f};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const int level = tile_nibble(tile + kHeader, row, column);
    return half_at(tile + 2 * row) * static_cast<float>(level - 8);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
