// What formats of 4 bits in tiles of 16 rows x 32 columns share, so that a lane is a row: scales,
// then four groups j of 64 bytes, four for each row: low nibbles are columns 4j.., high ones
// 16 + 4j.. .
#pragma once

#include "plan/op.h"
#include "quant/bytes32.h"

namespace llm {
namespace LLM_ISA {

// A scale and a minimum a row: value = d * level + m
struct LaneScales {
  F32 d, m;
};

// Of four groups j of 64 bytes, a word for each of 16 rows: columns 4j.. in the low nibbles and
// 16 + 4j.. in the high ones, of the kWidth rows of a part, a row a lane
inline void unpack_tile_nibbles(const uint8_t* groups, int part, int j, I32& low, I32& high) {
  const I32 packed = load(reinterpret_cast<const int32_t*>(groups + 64 * j) + part * kWidth);
  low = packed & 0x0f0f0f0f;
  high = (packed >> 4) & 0x0f0f0f0f;
}

// words[g]: columns 4g..4g+3
inline void unpack_tile_nibbles(const uint8_t* groups, int part, I32 (&words)[8]) {
  for (int j = 0; j < 4; ++j) unpack_tile_nibbles(groups, part, j, words[j], words[4 + j]);
}

inline int tile_nibble(const uint8_t* groups, int row, int column) {
  const int at = column % 16;
  const uint8_t both = groups[at / 4 * 64 + 4 * row + at % 4];
  return column < 16 ? both & 15 : both >> 4;
}

// What formats of 4 bits in tiles share; kBytes of scales come first.
template <int kBytes>
struct NibbleTiles {
  static constexpr int kHeader = kBytes;
  static constexpr bool kNibbles = true;

  static void levels(const uint8_t* tile, int part, I32 (&words)[8]) {
    unpack_tile_nibbles(tile + kHeader, part, words);
  }
  static void plain_levels(const uint8_t* tile, int part, I32 (&words)[8]) {
    levels(tile, part, words);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
