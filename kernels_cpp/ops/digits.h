// Floats as integers of three signed bytes, so that products of bytes multiply them with levels,
// exactly within a block: value = step * (d[0] + 256 d[1] + 65536 d[2]).
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

// A row of floats as digits. Sums of their products with unsigned levels begin with what stands for
// the level 0; `rest` is what they lack in the end, in steps.
struct DigitRow {
  const int8_t* at;  // [kDigits] of the row
  float step, rest;
  int32_t begin[kDigits];
};

// The products of a row, from those of its digits
inline F32 joined(const I32 (&sums)[kDigits], F32 rest, F32 step) {
  return (to_f32(sums[2] * 256 + sums[1]) * 256.0f + (to_f32(sums[0]) + rest)) * step;
}
inline F32 joined(const DigitRow& row, const I32 (&sums)[kDigits]) {
  return joined(sums, broadcast(row.rest), broadcast(row.step));
}

// A block of some tokens, which are all reached from one address.
template <int kTokens>
struct DigitsX {
  int8_t digits[kTokens][kDigitBytes];  // [kDigits][32] of each token
  float steps[kTokens];
  float sums[kTokens];  // of the values
  // Of each half of the block, in steps: sums of d[0], and of d[1] + 256 d[2]
  int32_t low[kTokens][2], high[kTokens][2];

  // Of the values that meet one of kScales scales
  template <int kScales>
  float sum(int token, int scale) const {
    if constexpr (kScales == 1) return sums[token];
    const auto low_part = static_cast<float>(low[token][scale]);
    return (static_cast<float>(high[token][scale]) * 256.0f + low_part) * steps[token];
  }
};

// The least power of two that leaves |x| / step < 2^22 of n values, whole vectors; NaN where one of
// them is not finite.
inline float digit_step(const float* x, int64_t n) {
  constexpr uint32_t kOneExponent = 1u << 23, kInfinite = 255 * kOneExponent;
  U32 most = {};  // without their sign, floats are in the order of their bits
  for (int64_t i = 0; i < n; i += kWidth) {
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

// x / step of kDigitBlock values, as integers
inline void whole_steps(const float* x, float step, int32_t* whole) {
  const float inverse = step == step ? 1.0f / step : 0.0f;
  for (int i = 0; i < kDigitBlock; i += kWidth) {
    const I32 values = to_i32(round_nearest(load(x + i) * inverse));
    std::memcpy(whole + i, &values, sizeof values);
  }
}

// digits: those of a kind `apart` behind those of the kind before
inline void put_digits(const int32_t* whole, int8_t* digits, int64_t apart) {
  for (int i = 0; i < kDigitBlock; ++i) {
    digits[i] = static_cast<int8_t>(whole[i]);
    digits[apart + i] = static_cast<int8_t>((whole[i] + 0x80) >> 8);
    digits[2 * apart + i] = static_cast<int8_t>((whole[i] + 0x8080) >> 16);
  }
}

// Of kDigitBlock values
inline void split_digits(const float* x, float step, int8_t* digits, int64_t apart) {
  int32_t whole[kDigitBlock];
  whole_steps(x, step, whole);
  put_digits(whole, digits, apart);
}

// Of each half of a block: sums of d[0], and of d[1] + 256 d[2], which is (value - d[0]) / 256
inline void sum_halves(const int32_t* whole, int32_t (&low)[2], int32_t (&high)[2]) {
  constexpr int kHalf = kDigitBlock / 2;
  for (int half = 0; half < 2; ++half) {
    I32 values = {}, lowest = {};
    for (int i = 0; i < kHalf; i += kWidth) {
      const I32 some = load(whole + kHalf * half + i);
      values += some;
      lowest += (some << 24) >> 24;
    }
    int32_t of_low = 0, of_all = 0;
    for (int i = 0; i < kWidth; ++i) {
      of_low += lowest[i];
      of_all += values[i];
    }
    low[half] = of_low;
    high[half] = (of_all - of_low) / 256;
  }
}

// n values, whole blocks, of each token
template <int kTokens>
inline void split_tokens(const float* const (&x)[kTokens], int64_t n, DigitsX<kTokens>* blocks) {
  for (int64_t i = 0; i < n; i += kDigitBlock, ++blocks) {
    for (int t = 0; t < kTokens; ++t) {
      F32 total = {};
      for (int j = 0; j < kDigitBlock; j += kWidth) total += load(x[t] + i + j);
      blocks->sums[t] = sum(total);
      blocks->steps[t] = digit_step(x[t] + i, kDigitBlock);
      int32_t whole[kDigitBlock];
      whole_steps(x[t] + i, blocks->steps[t], whole);
      put_digits(whole, blocks->digits[t], kDigitBlock);
      sum_halves(whole, blocks->low[t], blocks->high[t]);
    }
  }
}

// (levels - kZero) . x / step of each token over the columns of a scale, rows in lanes; words:
// those of a block, of bytes. All registers take turns, so that they share what is broadcast.
template <typename Format, int kTokens, int kVectors>
inline void digit_dots(const I32 (&words)[kVectors][8], int scale, const DigitsX<kTokens>& x,
                       F32 (&dots)[kTokens][kVectors]) {
  constexpr Levels kLevels = Format::kLevels;
  constexpr int kScales = Format::kScales, kWords = 8 / kScales;
  constexpr int kStep = kWords < kWordsPerSum<kLevels> ? kWords : kWordsPerSum<kLevels>;
  I32 sums[kTokens][kDigits][kVectors] = {};
  for (int first = 0; first < kWords; first += kStep) {
    I32 some[kTokens][kDigits][kVectors] = {};
    for (int g = kWords * scale + first; g < kWords * scale + first + kStep; ++g) {
      for (int t = 0; t < kTokens; ++t) {
        for (int digit = 0; digit < kDigits; ++digit) {
          const int8_t* at = x.digits[t] + digit * kDigitBlock + 4 * g;
          for (int lanes = 0; lanes < kVectors; ++lanes) {
            I32& sum = some[t][digit][lanes];
            sum = add_products_at<kLevels>(sum, words[lanes][g], at);
          }
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      for (int digit = 0; digit < kDigits; ++digit) {
        for (int lanes = 0; lanes < kVectors; ++lanes) {
          sums[t][digit][lanes] += widen_sums<kLevels>(some[t][digit][lanes]);
        }
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    const auto of_zero = [&](const int32_t (&halves)[2]) {
      return spread(Format::kZero * (kScales == 1 ? halves[0] + halves[1] : halves[scale]));
    };
    for (int lanes = 0; lanes < kVectors; ++lanes) {
      const I32 high = sums[t][2][lanes] * 256 + sums[t][1][lanes] - of_zero(x.high[t]);
      dots[t][lanes] = to_f32(high) * 256.0f + to_f32(sums[t][0][lanes] - of_zero(x.low[t]));
    }
  }
}

// levels . x / step of a block of each token, rows in lanes; nibbles of words hold a row's levels.
// All registers and tokens take turns, so that they share what is broadcast and unpacked.
template <int kTokens, int kVectors>
inline void digit_dots(const uint8_t* groups, const DigitsX<kTokens>& x,
                       F32 (&dots)[kTokens][kVectors]) {
  I32 sums[kTokens][kDigits][kVectors] = {};
#pragma GCC unroll 1  // else compilers keep products back, more than there are registers
  for (int j = 0; j < 4; ++j) {
    for (int lanes = 0; lanes < kVectors; ++lanes) {
      I32 low, high;
      unpack_tile_nibbles(groups, lanes, j, low, high);
      for (int t = 0; t < kTokens; ++t) {
        for (int digit = 0; digit < kDigits; ++digit) {
          I32& sum = sums[t][digit][lanes];
          const int8_t* words = x.digits[t] + digit * kDigitBlock + 4 * j;
          sum = add_products_at<Levels::kNibbles>(sum, low, words);
          sum = add_products_at<Levels::kNibbles>(sum, high, words + 16);
        }
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int lanes = 0; lanes < kVectors; ++lanes) {
      const auto wide = [&](int digit) {
        return widen_sums<Levels::kNibbles>(sums[t][digit][lanes]);
      };
      dots[t][lanes] = to_f32(wide(2) * 256 + wide(1)) * 256.0f + to_f32(wide(0));
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
