// Int8: tiles of 16 rows x 32 columns: 16 float16 d, a row each, then eight groups g of 64 bytes,
// columns 4g..4g+3 of each row as int8. value = d * level. core/quant/blocks/int8.py defines it.
#pragma once

#include "quant/nibble_tiles.h"

namespace llm {
namespace LLM_ISA {

// The instruction set multiplies unsigned by signed bytes and accumulates in 32 bits (VNNI), so
// int8 levels meet activations with 128 added.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kBiased = true;
#else
constexpr bool kBiased = false;
#endif

struct Int8Tiles {
  static constexpr int kTileBytes = 544;
  static constexpr bool kNibbles = false;
  static constexpr bool kHasMinimum = false;
  static constexpr int kZero = kBiased ? 128 : 0;  // the level that stands for 0

  // words[g]: columns 4g..4g+3 of the kWidth rows of a part, a row a lane; 128 added if kBiased
  static void levels(const uint8_t* tile, int part, I32 (&words)[8]) {
    plain_levels(tile, part, words);
    if constexpr (kBiased) {
      for (I32& word : words) word ^= static_cast<int32_t>(0x80808080);
    }
  }

  static void plain_levels(const uint8_t* tile, int part, I32 (&words)[8]) {
    for (int g = 0; g < 8; ++g) {
      words[g] = load(reinterpret_cast<const int32_t*>(tile + 32 + 64 * g) + part * kWidth);
    }
  }

  static I32 zeros(const uint8_t*, int) { return I32{} + kZero; }

  static LaneScales scales(const uint8_t* tile, int part) {
    return {load(reinterpret_cast<const Half*>(tile) + part * kWidth), F32{}};
  }

  static float value(const uint8_t* tile, int row, int column) {
    const auto level = static_cast<int8_t>(tile[32 + column / 4 * 64 + 4 * row + column % 4]);
    return half_at(tile + 2 * row) * static_cast<float>(level);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
