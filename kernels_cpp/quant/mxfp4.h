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

struct MXFP4Tiles : SignedTiles<MXFP4Tiles> {
  static constexpr int kTileBytes = kTileRows * (1 + 32 / 2), kParts = 1;

  static void plain_levels(const uint8_t* tile, int, int lanes, I32 (&words)[8]) {
    look_up_nibbles(kMinifloats, tile + kTileRows, lanes, words);
  }
  static LaneScales scales(const uint8_t* tile, int, int lanes, int) {
    const U32 e = widen_u8(tile + lanes * kWidth);
    const F32 normal = from_bits((e - 1) << 23);
    const F32 subnormal = from_bits(0x00200000u << (e & 1));
    return {choose((I32)(e < 2), subnormal, normal), F32{}};
  }
  static float value(const uint8_t* tile, int row, int column) {
    const int code = tile_nibble(tile + kTileRows, row, column);
    return power_of(tile[row]) * static_cast<float>(kMinifloats.numbers[code]);
  }
};

struct MXFP4Rows {
  typedef MXFP4Tiles Tiles;
  static constexpr int kBytes = 1 + 32 / 2;

  static void to_tile(const uint8_t* block, int row, uint8_t* tile) {
    tile[row] = block[0];
    block_to_tile<0, 4>(block + 1, row, tile + kTileRows);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
