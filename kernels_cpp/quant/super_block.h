// What super-blocks of 256 columns share. A tile begins with arrays of float16, a row each, that
// belong to all of it; then come eight parts of 32 columns.
#pragma once

#include "quant/tiles.h"

namespace llm {
namespace LLM_ISA {

constexpr int kSuperParts = 8;

// kHalves: arrays of the whole tile; kPartBytes: of a part of it
template <int kHalves, int kPartBytes>
struct SuperBlock {
  static constexpr int kSuperBytes = 2 * kTileRows * kHalves;
  static constexpr int kTileBytes = kSuperBytes + kSuperParts * kPartBytes, kParts = kSuperParts;

  static const uint8_t* part_of(const uint8_t* tile, int part) {
    return tile + kSuperBytes + kPartBytes * part;
  }
  static uint8_t* part_of(uint8_t* tile, int part) {
    return tile + kSuperBytes + kPartBytes * part;
  }
};

// What follows takes levels of four rows, a byte each: words[g] has those of columns 4g..4g+3.

// Four bits of each, above `shift` -> four groups of nibbles
inline void put_nibbles(const FourWords (&words)[8], int shift, int row, uint8_t* groups) {
  for (int j = 0; j < 4; ++j) {
    const FourWords low = words[j] >> shift & 0x0f0f0f0f, high = words[4 + j] >> shift & 0x0f0f0f0f;
    put_word(low | high << 4, row, groups + kGroupBytes * j);
  }
}

// The bit above `shift` -> a group of them, as of fifth bits
inline void put_bits(const FourWords (&words)[8], int shift, int row, uint8_t* group) {
  FourWords bits = {};
  for (int g = 0; g < 8; ++g) bits |= (words[g] >> shift & 0x01010101) << g;
  put_word(bits, row, group);
}

// Two bits above `shift` -> two groups of them: bits 2 (g % 4).. of byte b of the word in group
// g / 4 belong to column 4g + b.
inline void put_twos(const FourWords (&words)[8], int shift, int row, uint8_t* groups) {
  for (int h = 0; h < 2; ++h) {
    FourWords twos = {};
    for (int g = 0; g < 4; ++g) twos |= (words[4 * h + g] >> shift & 0x03030303) << 2 * g;
    put_word(twos, row, groups + kGroupBytes * h);
  }
}
// kTo: the bit of a level that the lower one is
template <int kTo = 0>
inline void unpack_twos(const uint8_t* groups, int lanes, I32 (&words)[8]) {
  for (int h = 0; h < 2; ++h) {
    const I32 packed = load_words(groups + kGroupBytes * h, lanes);
    for (int g = 0; g < 4; ++g) words[4 * h + g] = move_bits(packed, 2 * g, kTo, 3);
  }
}
inline int two_bits(const uint8_t* groups, int row, int column) {
  const uint8_t byte = groups[column / 16 * kGroupBytes + 4 * row + column % 4];
  return byte >> (column / 4 % 4 * 2) & 3;
}

// The 6-bit scales and minimums of the parts, of the 12 bytes of Q4_K and Q5_K, to two arrays of
// each part. Bytes 0-3: scales 0-3, and above them the highest bits of scales 4-7; bytes 4-7:
// minimums likewise; bytes 8-11: the lower bits of scales 4-7 and, above them, of minimums.
template <typename Tiles>
inline void put_six_bits(const Blocks& packed, int row, uint8_t* tile) {
  FourWords words[4];  // the last one is of what follows
  turn_words(packed, words);
  const FourWords halves[2][2] = {
      {words[0] & 0x3f3f3f3f, (words[2] & 0x0f0f0f0f) | (words[0] >> 6 & 0x03030303) << 4},
      {words[1] & 0x3f3f3f3f, (words[2] >> 4 & 0x0f0f0f0f) | (words[1] >> 6 & 0x03030303) << 4}};
  for (int array = 0; array < 2; ++array) {
    for (int half = 0; half < 2; ++half) {
      uint8_t* arrays[4];
      for (int i = 0; i < 4; ++i) {
        arrays[i] = Tiles::part_of(tile, 4 * half + i) + kTileRows * array;
      }
      put_bytes(halves[array][half], row, arrays);
    }
  }
}

// A byte for each 16 columns, those of two parts a word -> the two arrays of either
template <typename Tiles>
inline void put_two_scales(FourWords word, int i, int row, uint8_t* tile) {
  uint8_t *first = Tiles::part_of(tile, 2 * i), *second = Tiles::part_of(tile, 2 * i + 1);
  put_bytes(word, row, {first, first + kTileRows, second, second + kTileRows});
}

// value = d * scale * level - dmin * minimum: d and dmin of the tile, an unsigned byte each of the
// part
inline LaneScales scale_and_minimum(const uint8_t* tile, const uint8_t* part, int lanes) {
  const F32 d = load_halves(tile, lanes), dmin = load_halves(tile + 2 * kTileRows, lanes);
  return {d * load_unsigned(part, lanes), -dmin * load_unsigned(part + kTileRows, lanes)};
}
inline float value_with_minimum(const uint8_t* tile, const uint8_t* part, int row, int level) {
  const float d = half_at(tile + 2 * row), dmin = half_at(tile + 2 * (kTileRows + row));
  return d * part[row] * static_cast<float>(level) - dmin * part[kTileRows + row];
}

// value = d * scale * level: d of the tile, a signed byte each of the part
inline LaneScales signed_scale(const uint8_t* tile, const uint8_t* scales, int lanes) {
  return {load_halves(tile, lanes) * load_signed(scales, lanes), F32{}};
}
inline float signed_value(const uint8_t* tile, const uint8_t* scales, int row, int level) {
  const auto scale = static_cast<int8_t>(scales[row]);
  return half_at(tile + 2 * row) * static_cast<float>(scale) * static_cast<float>(level);
}

}  // namespace LLM_ISA
}  // namespace llm
