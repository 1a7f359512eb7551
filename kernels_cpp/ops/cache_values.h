// Values of a cache's rows by their type: how they are loaded, and how many bytes they take.
#pragma once

#include <type_traits>

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

// Two levels of int4, the first in the low bits; a level q stands for q - 7.5
// (core/quant/rows.py)
struct Nibbles {
  uint8_t both;
};

template <typename T>
constexpr bool kHasScale = std::is_same<T, int8_t>::value || std::is_same<T, Nibbles>::value;

// Bytes of n values; of Nibbles an even number
template <typename T>
constexpr int64_t value_bytes(int64_t n) {
  if (std::is_same<T, Nibbles>::value) return n / 2;
  return n * static_cast<int64_t>(sizeof(T));
}

// n values further, a whole number of bytes
template <typename T>
inline const T* along(const T* p, int64_t n) {
  return reinterpret_cast<const T*>(reinterpret_cast<const uint8_t*>(p) + value_bytes<T>(n));
}

// kWidth levels, without their scale
inline F32 load(const Nibbles* p) {
#if defined(__AVX512F__)
  const __m512 levels = _mm512_setr_ps(-7.5f, -6.5f, -5.5f, -4.5f, -3.5f, -2.5f, -1.5f, -0.5f, 0.5f,
                                       1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7.5f);
  // Four bytes to each lane of a half, shifted to the lane's level. The choice of a level looks at
  // four bits only.
  const __m512i shifts =
      _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
  int32_t first, second;
  std::memcpy(&first, p, sizeof first);
  std::memcpy(&second, p + 4, sizeof second);
  const __m512i words = _mm512_mask_set1_epi32(_mm512_set1_epi32(first), 0xff00, second);
  return (F32)_mm512_permutexvar_ps(_mm512_srlv_epi32(words, shifts), levels);
#else
  U32 word = {};
  if constexpr (kWidth == 8) {
    uint32_t bits;
    std::memcpy(&bits, p, sizeof bits);
    word = word + bits;
  } else {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    word = word + bits;
  }
  U32 shifts;
  for (int i = 0; i < kWidth; ++i) shifts[i] = 4 * i;
  return to_f32((I32)(word >> shifts & 15)) - 7.5f;
#endif
}

// The first n, an even number, the others 0
inline F32 load_part(const Nibbles* p, int64_t n) {
  Nibbles lanes[kWidth] = {};
  std::memcpy(lanes, p, n / 2);
  F32 values = load(lanes);
  for (int64_t i = n; i < kWidth; ++i) values[i] = 0;
  return values;
}

}  // namespace LLM_ISA
}  // namespace llm
