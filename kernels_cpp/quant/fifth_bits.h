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

// Exchanges two bits of the numbers of the bits of a word; those of which the higher is 0 and the
// lower is 1 are `mask`.
template <int kHigher, int kLower>
inline FourWords swap_index_bits(FourWords words, uint32_t mask) {
  constexpr int kApart = (1 << kHigher) - (1 << kLower);
  const FourWords changed = (words >> kApart ^ words) & mask;
  return words ^ changed ^ changed << kApart;
}

// Blocks of fifth bits, bit i that of column i, then nibbles: bit 4g + b becomes 8b + g, which
// turns the five bits of its number by two.
inline void fives_to_tile(const Blocks& blocks, int row, uint8_t* groups) {
  FourWords fifths = first_words(blocks);
  fifths = swap_index_bits<4, 1>(fifths, 0x0000cccc);
  fifths = swap_index_bits<3, 0>(fifths, 0x00aa00aa);
  fifths = swap_index_bits<2, 1>(fifths, 0x0c0c0c0c);
  fifths = swap_index_bits<1, 0>(fifths, 0x22222222);
  put_word(fifths, row, groups);
  blocks_to_tile<0, 4>(blocks.behind(4), row, groups + kGroupBytes);
}

}  // namespace LLM_ISA
}  // namespace llm
