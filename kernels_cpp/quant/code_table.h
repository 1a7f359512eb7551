// What formats of 4-bit codes share: a nibble names one of 16 signed bytes of a table.
#pragma once

#include "quant/tiles.h"

namespace llm {
namespace LLM_ISA {

struct alignas(16) CodeTable {
  int8_t numbers[16];
};

// Of IQ4_NL and IQ4_XS (kvalues_iq4nl of ggml-common.h)
constexpr CodeTable kNonlinear = {
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};
// E2M1 doubled (OCP Microscaling Formats 1.0), with 12 added
constexpr CodeTable kMinifloats = {{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0}};

// words: of bytes 0 to 15 -> the numbers that these name
inline I32 look_up(const CodeTable& table, I32 codes) {
#if defined(__AVX512BW__)
  const __m128i numbers = _mm_load_si128(reinterpret_cast<const __m128i*>(table.numbers));
  return (I32)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(numbers), (__m512i)codes);
#elif defined(__AVX2__)
  const __m128i numbers = _mm_load_si128(reinterpret_cast<const __m128i*>(table.numbers));
  return (I32)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(numbers), (__m256i)codes);
#elif defined(__aarch64__)
  return (I32)vqtbl1q_s8(vld1q_s8(table.numbers), (uint8x16_t)codes);
#else
  typedef int8_t I8 __attribute__((vector_size(4 * kWidth)));
  I8 found = (I8)codes;
  for (int i = 0; i < 4 * kWidth; ++i) found[i] = table.numbers[found[i]];
  return (I32)found;
#endif
}

inline void look_up_nibbles(const CodeTable& table, const uint8_t* groups, int lanes,
                            I32 (&words)[8]) {
  unpack_tile_nibbles(groups, lanes, words);
  for (I32& word : words) word = look_up(table, word);
}

}  // namespace LLM_ISA
}  // namespace llm
