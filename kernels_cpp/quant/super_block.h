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

inline void put_half(const uint8_t* half, int row, uint8_t* array) {
  std::memcpy(array + 2 * row, half, 2);
}

// levels: 32 of 4 bits, a byte each -> four groups of nibbles
inline void put_nibbles(const uint8_t* levels, int row, uint8_t* groups) {
  for (int i = 0; i < 16; ++i) {
    const auto both = static_cast<uint8_t>((levels[i] & 15) | (levels[16 + i] & 15) << 4);
    groups[i / 4 * kGroupBytes + 4 * row + i % 4] = both;
  }
}

// The bit above `shift` of 32 levels -> a group of them, as of fifth bits
inline void put_bits(const uint8_t* levels, int shift, int row, uint8_t* group) {
  uint8_t* word = group + 4 * row;
  std::memset(word, 0, 4);
  for (int i = 0; i < 32; ++i) {
    word[i % 4] = static_cast<uint8_t>(word[i % 4] | (levels[i] >> shift & 1) << (i / 4));
  }
}

// Two bits above `shift` of 32 levels -> two groups of them: bits 2 (g % 4).. of byte b of the word
// in group g / 4 belong to column 4g + b.
inline void put_twos(const uint8_t* levels, int shift, int row, uint8_t* groups) {
  for (int i = 0; i < 32; ++i) {
    uint8_t& byte = groups[i / 16 * kGroupBytes + 4 * row + i % 4];
    if (i % 16 < 4) byte = 0;
    byte = static_cast<uint8_t>(byte | (levels[i] >> shift & 3) << (i / 4 % 4 * 2));
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

// The 6-bit scale and minimum of part i, of the 12 bytes of Q4_K and Q5_K. Bytes 0-3: scales 0-3,
// and above them the highest bits of scales 4-7; bytes 4-7: minimums likewise; bytes 8-11: the
// lower bits of scales 4-7 and, above them, of minimums.
inline uint8_t six_bit_scale(const uint8_t* packed, int i) {
  if (i < 4) return packed[i] & 63;
  return static_cast<uint8_t>((packed[4 + i] & 15) | packed[i - 4] >> 6 << 4);
}
inline uint8_t six_bit_minimum(const uint8_t* packed, int i) {
  if (i < 4) return packed[4 + i] & 63;
  return static_cast<uint8_t>(packed[4 + i] >> 4 | packed[i] >> 6 << 4);
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
