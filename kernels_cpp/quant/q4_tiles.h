// Q4_0 and Q4_1 as tiles of 16 rows x 32 columns, so that a lane of a register is a row: 16
// float16 d, of Q4_1 16 float16 m, then the levels as Int4 has them. quantizer/to_tiles.cpp lays
// them out; the values are those of the rows.
#pragma once

#include "quant/int4.h"

namespace llm {
namespace LLM_ISA {

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
static_assert(Q4_0Tiles::kTileBytes == kTileRows * (2 + 32 / 2), "a float16 and 32 nibbles a row");

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
static_assert(Q4_1Tiles::kTileBytes == kTileRows * (2 + 2 + 32 / 2), "two float16 and 32 nibbles");

}  // namespace LLM_ISA
}  // namespace llm
