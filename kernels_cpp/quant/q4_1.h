// Q4_1: float16 d, float16 m, 16 bytes of nibbles (low ones first); value = d * level + m.
#pragma once

#include "quant/bytes32.h"

namespace llm {
namespace LLM_ISA {

struct Q4_1 {
  static constexpr int kBytes = 20;
  static constexpr bool kNibbles = true;
  static constexpr bool kSigned = false;
  static constexpr int kZero = 0;
  static constexpr bool kHasMinimum = true;

  static Bytes32 levels(const uint8_t* block) { return unpack_nibbles(block + 4); }
  static Scale scale(const uint8_t* block) { return {half_at(block), half_at(block + 2)}; }

  // value = d * floats + m
  static void floats(const uint8_t* block, F32 (&out)[32 / kWidth]) {
    to_floats<false>(levels(block), out);
  }

#if defined(__AVX512F__)
  static __m512i levels_of_two(const uint8_t* block) {
    return unpack_nibbles(block + 4, block + kBytes + 4);
  }
  // d, m, d, m
  static __m128 scales_of_two(const uint8_t* block) {
    int32_t first, second;
    std::memcpy(&first, block, 4);
    std::memcpy(&second, block + kBytes, 4);
    return _mm_cvtph_ps(_mm_insert_epi32(_mm_cvtsi32_si128(first), second, 1));
  }
#endif
};
static_assert(Q4_1::kBytes == 2 + 2 + 32 / 2, "two float16 and 32 nibbles");

}  // namespace LLM_ISA
}  // namespace llm
