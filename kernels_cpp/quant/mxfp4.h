// MXFP4: one exponent e, 16 bytes of 4-bit codes (low ones first); value = 2^(e - 128) *
// table[code], the table of doubled E2M1. A tile has 16 exponents, then codes.
#pragma once

#include "quant/code_table.h"

namespace llm {
namespace LLM_ISA {

// 2^(e - 128), subnormal where e is 0 or 1
inline float power_of(uint8_t e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct MXFP4Tiles : UnsignedTiles<MXFP4Tiles> {
  static constexpr Levels kLevels = Levels::kFives;
  static constexpr int kScales = 1, kZero = 12;
  static constexpr bool kHasMinimum = false;
  static constexpr int kTileBytes = kTileRows * (1 + 32 / 2), kParts = 1;

  static void levels(const uint8_t* tile, int, int lanes, I32 (&words)[8]) {
    look_up_nibbles(kMinifloats, tile + kTileRows, lanes, words);
  }
  static LaneScales scales(const uint8_t* tile, int, int lanes, int) {
    // Exponents 0 and 1 are of subnormal numbers, whose bits are the larger ones there alone.
    const I32 e = (I32)widen_u8(tile + lanes * kWidth);
    const I32 normal = (e - 1) << 23, subnormal = (e + 1) << 21;
    return {choose((I32)(normal > subnormal), (F32)normal, (F32)subnormal), F32{}};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const int code = tile_nibble(tile + kTileRows, row, column);
    return power_of(tile[row]) * static_cast<float>(kMinifloats.numbers[code] - kZero);
  }
};

struct MXFP4Rows {
  typedef MXFP4Tiles Tiles;
  static constexpr int kBytes = 1 + 32 / 2;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    put_byte(blocks, row, tile);
    blocks_to_tile<0, 4>(blocks.behind(1), row, tile + kTileRows);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
