// Int8: tiles of 16 float16 d, a row each, then eight groups g, columns 4g..4g+3 of each row as
// int8. value = d * level. core/quant/blocks/tiles.py defines it.
#pragma once

#include "quant/tiles.h"

namespace llm {
namespace LLM_ISA {

struct Int8Tiles : SignedTiles<Int8Tiles> {
  static constexpr int kTileBytes = kTileRows * (2 + 32), kParts = 1;

  static void plain_levels(const uint8_t* tile, int, int lanes, I32 (&words)[8]) {
    for (int g = 0; g < 8; ++g) {
      words[g] = load_words(tile + 2 * kTileRows + kGroupBytes * g, lanes);
    }
  }
  static LaneScales scales(const uint8_t* tile, int, int lanes, int) {
    return {load_halves(tile, lanes), F32{}};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const auto level = static_cast<int8_t>(byte_in_groups(tile + 2 * kTileRows, row, column));
    return half_at(tile + 2 * row) * static_cast<float>(level);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
