// Q8_0: float16 d, 32 int8; value = d * level.
#pragma once

#include "quant/bytes32.h"

namespace llm {
namespace LLM_ISA {

struct Q8_0 {
  static constexpr int kBytes = 34;
  static constexpr bool kNibbles = false;
  static constexpr bool kSigned = !kBiased;
  static constexpr int kZero = kBiased ? 128 : 0;  // the level that stands for 0
  static constexpr bool kHasMinimum = false;

  static Bytes32 levels(const uint8_t* block) {
    if constexpr (kBiased) return flip_sign_bits(load_bytes(block + 2));
    return load_bytes(block + 2);
  }
  static Scale scale(const uint8_t* block) {
    const float d = half_at(block);
    return {d, kBiased ? -128 * d : 0};
  }

  // value = d * floats
  static void floats(const uint8_t* block, F32 (&out)[32 / kWidth]) {
    to_floats<true>(load_bytes(block + 2), out);
  }

#if defined(__AVX512F__)
  static __m512i levels_of_two(const uint8_t* block) {
    const __m256i first = load_bytes(block + 2), second = load_bytes(block + kBytes + 2);
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
    return kBiased ? _mm512_xor_si512(both, _mm512_set1_epi8(-128)) : both;
  }
  // d, m, d, m
  static __m128 scales_of_two(const uint8_t* block) {
    uint16_t first, second;
    std::memcpy(&first, block, 2);
    std::memcpy(&second, block + kBytes, 2);
    const __m128i bits = _mm_cvtsi32_si128(first | static_cast<uint32_t>(second) << 16);
    const __m128 d = _mm_cvtph_ps(bits);
    const float offset = kBiased ? -128 : 0;
    return _mm_mul_ps(_mm_unpacklo_ps(d, d), _mm_setr_ps(1, offset, 1, offset));
  }
#endif
};
static_assert(Q8_0::kBytes == 2 + 32, "a float16 and 32 int8");

}  // namespace LLM_ISA
}  // namespace llm
