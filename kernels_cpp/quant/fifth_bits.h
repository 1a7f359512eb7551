// What formats of 5 bits share: in a tile, a group of fifth bits and then four of nibbles. Bit g of
// byte b of a row's word belongs to column 4g + b, so that a word of levels takes one shift of it.
#pragma once

#include "quant/tiles.h"

namespace llm {
namespace LLM_ISA {

__attribute__((always_inline)) inline void unpack_tile_fives(const uint8_t* groups, int lanes,
                                                             I32 (&words)[8]) {
  const I32 fifths = load_words(groups, lanes);
  unpack_tile_nibbles(groups + kGroupBytes, lanes, words);
  for (int g = 0; g < 8; ++g) words[g] |= move_bits(fifths, g, 4, 1);
}

inline int tile_five(const uint8_t* groups, int row, int column) {
  const int fifth = groups[4 * row + column % 4] >> (column / 4) & 1;
  return tile_nibble(groups + kGroupBytes, row, column) | fifth << 4;
}

// bits: 4 bytes, bit i that of column i
inline void fifth_bits_to_tile(const uint8_t* bits, int row, uint8_t* group) {
  uint8_t* word = group + 4 * row;
  std::memset(word, 0, 4);
  for (int i = 0; i < 32; ++i) {
    word[i % 4] = static_cast<uint8_t>(word[i % 4] | (bits[i / 8] >> (i % 8) & 1) << (i / 4));
  }
}

}  // namespace LLM_ISA
}  // namespace llm
