// What formats in tiles share. A tile holds a block of each of 16 rows, so that a lane is a row. It
// begins with what the whole block has, and goes on with its parts, each of 32 columns: first what
// scales a part, then levels in groups of 64 bytes, a word for each row.
//
// A format says
//   kTileBytes     of a tile
//   kParts         of a tile; 8 of a super-block of 256 columns
//   kLevels        what its levels are like (quant/levels.h)
//   kScales        of a part: 2 where 16 columns have one each
//   kHasMinimum    value = d * level + m; else m is known from d
//   kZero          the level that stands for 0; of nibbles see zeros
//   levels         words[g] of a part and of kWidth rows, `lanes`: columns 4g.. for products
//   plain_levels   the same, of which 0 stands for 0; of nibbles as levels
//   scales         of a part and of kWidth rows
//   value          of one row and column of the block
// and of nibbles also
//   groups         where those of a part begin
//   zeros          the level that stands for 0, in quarters
#pragma once

#include "plan/op.h"
#include "quant/levels.h"
#include "quant/to_tile.h"

namespace llm {
namespace LLM_ISA {

constexpr int kGroupBytes = 4 * kTileRows;  // a word for each row

// A scale and a minimum a row: value = d * level + m
struct LaneScales {
  F32 d, m;
};

// The rows of a tile that a register holds: kWidth of them from `lanes` * kWidth on.
inline F32 load_halves(const uint8_t* p, int lanes) {
  return load(reinterpret_cast<const Half*>(p) + lanes * kWidth);
}
inline I32 load_words(const uint8_t* p, int lanes) {
  return load(reinterpret_cast<const int32_t*>(p) + lanes * kWidth);
}
inline F32 load_unsigned(const uint8_t* p, int lanes) {
  return to_f32((I32)widen_u8(p + lanes * kWidth));
}
inline F32 load_signed(const uint8_t* p, int lanes) {
  return load(reinterpret_cast<const int8_t*>(p) + lanes * kWidth);
}

inline float half_at(const uint8_t* p) {
  Half half;
  std::memcpy(&half, p, sizeof half);
  return to_float(half);
}

// Byte `column` % 4 of a row's word in group `column` / 4
inline uint8_t byte_in_groups(const uint8_t* groups, int row, int column) {
  return groups[column / 4 * kGroupBytes + 4 * row + column % 4];
}

// Of four groups: columns 4j.. in the low nibbles and 16 + 4j.. in the high ones.
inline void unpack_tile_nibbles(const uint8_t* groups, int lanes, int j, I32& low, I32& high) {
  const I32 packed = load_words(groups + kGroupBytes * j, lanes);
  low = packed & 0x0f0f0f0f;
  high = (packed >> 4) & 0x0f0f0f0f;
}
inline void unpack_tile_nibbles(const uint8_t* groups, int lanes, I32 (&words)[8]) {
  for (int j = 0; j < 4; ++j) unpack_tile_nibbles(groups, lanes, j, words[j], words[4 + j]);
}
inline int tile_nibble(const uint8_t* groups, int row, int column) {
  const uint8_t both = byte_in_groups(groups, row, column % 16);
  return column < 16 ? both & 15 : both >> 4;
}

// Bits `mask` above bit `from` of each byte, moved to bit `to`
inline I32 move_bits(I32 word, int from, int to, int mask) {
  const I32 moved = to > from ? word << (to - from) : word >> (from - to);
  return moved & ((mask << to) * 0x01010101);
}

// Four bytes of each lane, each with kAdded
template <int kAdded>
inline I32 add_bytes(I32 word) {
  typedef int8_t I8 __attribute__((vector_size(4 * kWidth)));
  return (I32)((I8)word + static_cast<int8_t>(kAdded));
}

// What formats of nibbles share. `Format` has `groups`.
template <typename Format>
struct NibbleTiles {
  static constexpr Levels kLevels = Levels::kNibbles;
  static constexpr int kScales = 1, kZero = 0;

  static void levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
    unpack_tile_nibbles(Format::groups(tile, part), lanes, words);
  }
  static void plain_levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
    levels(tile, part, lanes, words);
  }
};

// What formats of signed levels of 8 bits share. `Format` has `plain_levels`. Where the
// instruction set multiplies unsigned by signed bytes, 128 is added to levels.
template <typename Format>
struct SignedTiles {
  static constexpr Levels kLevels = Levels::kBytes;
  static constexpr int kScales = 1, kZero = kUnsignedBySigned ? 128 : 0;
  static constexpr bool kHasMinimum = false;

  static void levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
    Format::plain_levels(tile, part, lanes, words);
    if constexpr (kUnsignedBySigned) {
      for (I32& word : words) word ^= static_cast<int32_t>(0x80808080);
    }
  }
};

// What formats of other levels without a sign share. `Format` has `levels`.
template <typename Format>
struct UnsignedTiles {
  static void plain_levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
    Format::levels(tile, part, lanes, words);
    if constexpr (Format::kZero != 0) {
      for (I32& word : words) word = add_bytes<-Format::kZero>(word);
    }
  }
};

// Whether sums of activations are needed beside products.
template <typename Format>
constexpr bool kHasM = Format::kHasMinimum || Format::kLevels == Levels::kNibbles;

// The 32 columns at `column` of a row of tiles: their tile, and which part of it they are.
struct TilePart {
  const uint8_t* tile;
  int part;
};
template <typename Format>
inline TilePart part_at(const uint8_t* tiles, int64_t column) {
  const int64_t index = column / kTileColumns;
  return {tiles + index / Format::kParts * Format::kTileBytes,
          static_cast<int>(index % Format::kParts)};
}

}  // namespace LLM_ISA
}  // namespace llm
