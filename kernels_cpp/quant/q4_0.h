// Q4_0: float16 d, 16 bytes of nibbles (low ones first); value = d * (level - 8).
#pragma once

#include "quant/bytes32.h"

namespace llm {
namespace LLM_ISA {

struct Q4_0 {
  static constexpr int kBytes = 18;
  static constexpr bool kNibbles = true;
  static constexpr bool kSigned = false;
  static constexpr int kZero = 4 * 8;  // the level that stands for 0, in quarters
  static constexpr bool kHasMinimum = false;

  static Bytes32 levels(const uint8_t* block) { return unpack_nibbles(block + 2); }
  static Scale scale(const uint8_t* block) {
    const float d = half_at(block);
    return {d, -8 * d};
  }

  // value = d * floats
  static void floats(const uint8_t* block, F32 (&out)[32 / kWidth]) {
    to_floats<false>(levels(block), out);
    for (F32& values : out) values -= 8.0f;
  }

#if defined(__AVX512F__)
  static __m512i levels_of_two(const uint8_t* block) {
    return unpack_nibbles(block + 2, block + kBytes + 2);
  }
  // d, m, d, m
  static __m128 scales_of_two(const uint8_t* block) {
    uint16_t first, second;
    std::memcpy(&first, block, 2);
    std::memcpy(&second, block + kBytes, 2);
    const __m128i bits = _mm_cvtsi32_si128(first | static_cast<uint32_t>(second) << 16);
    const __m128 d = _mm_cvtph_ps(bits);
    return _mm_mul_ps(_mm_unpacklo_ps(d, d), _mm_setr_ps(1, -8, 1, -8));
  }
#endif
};
static_assert(Q4_0::kBytes == 2 + 32 / 2, "a float16 and 32 nibbles");

}  // namespace LLM_ISA
}  // namespace llm
