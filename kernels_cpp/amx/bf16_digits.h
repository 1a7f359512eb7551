// Floats as sums of BF16 numbers, their digits, so that TDPBF16PS, which sums in float32,
// multiplies them as exactly as float32 does.
//
// A digit is what is left of the value, rounded to the 8 bits of BF16. With u = 2^-8: each digit is
// at most u of the one before, and since the second is rounded from at most half a unit of the
// first, the third is at most u^2 / 2 of the value. Three digits are all 24 bits of a float32, two
// the 11 of a float16, one those of a BF16.
//
// Of the products x[i] * w[j] of the digits of an activation and a weight those with i + j <= 2 are
// summed. The others are x[2] * w[1], at most u^3 / 2 = 2^-25 of x * w, x[1] * w[2] likewise, and
// x[2] * w[2], at most 2^-34. A BF16 weight has none of them, a float16 weight only the first; of a
// float32 weight they are together what rounding x * w to float32 may change, 2^-24.
#pragma once

#include "quant/formats.h"

namespace llm {
namespace LLM_ISA {

constexpr int kBf16Columns = 2 * kWidth;  // of a row of a tile register: words of two neighbours
constexpr int kFloatDigits = 3;           // of float32
constexpr int kLastProduct = 2;           // i + j at most

typedef uint16_t U16 __attribute__((vector_size(4 * kWidth)));

// TDPBF16PS takes subnormal numbers, less than 2^-126, for 0 and makes none. Where the largest
// value X of a token and W of a row of weights lie between these, that changes a sum over K columns
// by at most K * 2^-125 * (X + W + 3): beside X * W >= 2^-80 less than rounding to float32, 2^-24,
// for K < 2^17. No sum is infinite. Activations that are next to nothing beside others are frequent
// (of SiLU, say), tokens and rows outside of the range are not: these are multiplied as floats.
constexpr uint16_t kLeastInRange = (127 - 40) << 7;  // 2^-40 in BF16
constexpr uint16_t kMostInRange = (127 + 40) << 7;   // 2^40

template <typename Value>
constexpr int kDigitsOf = 0;
template <>
inline constexpr int kDigitsOf<Brain> = 1;
template <>
inline constexpr int kDigitsOf<Half> = 2;
template <>
inline constexpr int kDigitsOf<float> = kFloatDigits;

inline F32 nearest_bf16(F32 x) { return from_bits((bits_of(x) + 0x8000u) & 0xffff0000u); }

template <int... i>
inline F32 evens(F32 a, F32 b, std::integer_sequence<int, i...>) {
  return shuffle<2 * i...>(a, b);
}
template <int... i>
inline F32 odds(F32 a, F32 b, std::integer_sequence<int, i...>) {
  return shuffle<2 * i + 1 ...>(a, b);
}

// Words of two columns' digits, the first in the lower half: words[i] are digits i. What is no
// number stays none, in the last of them.
template <int kDigits>
inline void split_bf16(F32 even, F32 odd, F32 (&words)[kDigits]) {
  for (int i = 0; i < kDigits; ++i) {
    const bool last = i + 1 == kDigits;  // whose lower half is 0 already
    const F32 low = last ? even : nearest_bf16(even), high = last ? odd : nearest_bf16(odd);
    words[i] = from_bits((bits_of(low) >> 16) | (bits_of(high) & 0xffff0000u));
    even -= low;
    odd -= high;
  }
}

// The first n of kBf16Columns values, then zeros: lanes are pairs of neighbours.
inline void split_row_bf16(const float* values, int64_t n, F32 (&words)[kFloatDigits]) {
  constexpr std::make_integer_sequence<int, kWidth> kLanes;
  float some[kBf16Columns] = {};
  if (n < kBf16Columns) values = static_cast<float*>(std::memcpy(some, values, n * sizeof(float)));
  const F32 first = load(values), second = load(values + kWidth);
  split_bf16(evens(first, second, kLanes), odds(first, second, kLanes), words);
}

inline U16 magnitudes(F32 words) { return (U16)(bits_of(words) & 0x7fff7fffu); }
inline U16 larger(U16 a, U16 b) { return a > b ? a : b; }

inline bool in_range(uint16_t largest) {
  return largest == 0 || (kLeastInRange <= largest && largest <= kMostInRange);
}

}  // namespace LLM_ISA
}  // namespace llm
