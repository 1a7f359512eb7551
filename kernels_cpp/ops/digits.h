// Floats as integers of three signed bytes, so that products of bytes multiply them with levels
// of 4 bits, exactly within a block: value = step * (d[0] + 256 d[1] + 65536 d[2]).
//
// Beside float products that is a fixed point: a block of 32 shares its step, a power of two, and
// the largest value has 22 bits. The others lose what a float sum of the block loses too.
#pragma once

#include "ops/lanes_a8.h"
#include "quant/tiles.h"

namespace llm {
namespace LLM_ISA {

constexpr int kDigits = 3;
constexpr int kDigitBlock = 32;
constexpr int kDigitBytes = kDigits * kDigitBlock;  // of a block: 32 of each digit

struct DigitsX {
  const int8_t* digits;  // [K / 32][kDigits][32]
  const float* steps;    // [K / 32]
  const float* sums;     // [K / 32], of the values
};

// The least power of two that leaves |x| / step < 2^22; NaN where x has no finite value.
inline float digit_step(const float* x) {
  constexpr uint32_t kOneExponent = 1u << 23, kInfinite = 255 * kOneExponent;
  U32 most = {};  // without their sign, floats are in the order of their bits
  for (int i = 0; i < kDigitBlock; i += kWidth) {
    const U32 bits = bits_of(abs(load(x + i)));
    most = (U32)choose((I32)(bits > most), (F32)bits, (F32)most);
  }
  uint32_t largest = 0;
  for (int i = 0; i < kWidth; ++i) largest = most[i] > largest ? most[i] : largest;
  uint32_t step = kInfinite + 1;
  if (largest < kInfinite) {
    const uint32_t exponent = largest & kInfinite;
    step = exponent > 22 * kOneExponent ? exponent - 21 * kOneExponent : kOneExponent;
  }
  float value;
  std::memcpy(&value, &step, sizeof value);
  return value;
}

inline void split_digits(const float* x, float step, int8_t* digits) {
  const float inverse = step == step ? 1.0f / step : 0.0f;
  int32_t whole[kDigitBlock];
  for (int i = 0; i < kDigitBlock; i += kWidth) {
    const I32 values = to_i32(round_nearest(load(x + i) * inverse));
    std::memcpy(whole + i, &values, sizeof values);
  }
  for (int i = 0; i < kDigitBlock; ++i) {
    digits[i] = static_cast<int8_t>(whole[i]);
    digits[kDigitBlock + i] = static_cast<int8_t>((whole[i] + 0x80) >> 8);
    digits[2 * kDigitBlock + i] = static_cast<int8_t>((whole[i] + 0x8080) >> 16);
  }
}

inline int32_t digit_word(const int8_t* digits, int digit, int column) {
  int32_t word;
  std::memcpy(&word, digits + digit * kDigitBlock + column, sizeof word);
  return word;
}

// levels . x / step of a block, rows in lanes; words of bytes hold a row's levels. All
// registers take turns, so that they share what is broadcast.
template <int kVectors>
inline void digit_dots(const uint8_t* groups, const int8_t* digits, F32 (&dots)[kVectors]) {
  I32 sums[kDigits][kVectors] = {};
#pragma GCC unroll 1  // else compilers keep products back, more than there are registers
  for (int j = 0; j < 4; ++j) {
    for (int lanes = 0; lanes < kVectors; ++lanes) {
      I32 low, high;
      unpack_tile_nibbles(groups, lanes, j, low, high);
      for (int digit = 0; digit < kDigits; ++digit) {
        I32& sum = sums[digit][lanes];
        sum = add_products<Levels::kNibbles>(sum, low, digit_word(digits, digit, 4 * j));
        sum = add_products<Levels::kNibbles>(sum, high, digit_word(digits, digit, 16 + 4 * j));
      }
    }
  }
  for (int lanes = 0; lanes < kVectors; ++lanes) {
    const I32 upper = widen_sums<Levels::kNibbles>(sums[2][lanes]) * 256 +
                      widen_sums<Levels::kNibbles>(sums[1][lanes]);
    dots[lanes] = to_f32(upper) * 256.0f + to_f32(widen_sums<Levels::kNibbles>(sums[0][lanes]));
  }
}

}  // namespace LLM_ISA
}  // namespace llm
