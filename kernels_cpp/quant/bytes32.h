// The 32 levels of a quantized block of a row as float32.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

#if defined(__AVX2__)

typedef __m256i Bytes32;

inline Bytes32 load_bytes(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

// 16 bytes -> low nibbles, then high nibbles
inline Bytes32 unpack_nibbles(const uint8_t* packed) {
  const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed));
  const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(q), _mm_srli_epi16(q, 4), 1);
  return _mm256_and_si256(both, _mm256_set1_epi8(0x0f));
}

#else

struct Bytes32 {
  uint8_t at[32];
};

inline Bytes32 load_bytes(const void* p) {
  Bytes32 v;
  std::memcpy(v.at, p, 32);
  return v;
}

inline Bytes32 unpack_nibbles(const uint8_t* packed) {
  Bytes32 v;
  for (int i = 0; i < 16; ++i) v.at[i] = packed[i] & 0x0f;
  for (int i = 0; i < 16; ++i) v.at[16 + i] = packed[i] >> 4;
  return v;
}

#endif

// levels -> 32 float32; kSigned says how to read the bytes
template <bool kSigned>
inline void to_floats(const Bytes32& levels, F32 (&out)[32 / kWidth]) {
#if defined(__AVX512F__)
  const __m128i part[2] = {_mm256_castsi256_si128(levels), _mm256_extracti128_si256(levels, 1)};
  for (int i = 0; i < 2; ++i) {
    const __m512i wide = kSigned ? _mm512_cvtepi8_epi32(part[i]) : _mm512_cvtepu8_epi32(part[i]);
    out[i] = (F32)_mm512_cvtepi32_ps(wide);
  }
#elif defined(__AVX2__)
  const __m128i half[2] = {_mm256_castsi256_si128(levels), _mm256_extracti128_si256(levels, 1)};
  for (int i = 0; i < 4; ++i) {
    const __m128i part = i % 2 ? _mm_srli_si128(half[i / 2], 8) : half[i / 2];
    const __m256i wide = kSigned ? _mm256_cvtepi8_epi32(part) : _mm256_cvtepu8_epi32(part);
    out[i] = (F32)_mm256_cvtepi32_ps(wide);
  }
#else
  for (int i = 0; i < 32; i += 4) {
    I32 wide;
    for (int j = 0; j < 4; ++j) {
      wide[j] = kSigned ? static_cast<int8_t>(levels.at[i + j]) : levels.at[i + j];
    }
    out[i / 4] = to_f32(wide);
  }
#endif
}

inline float half_at(const uint8_t* p) {
  Half half;
  std::memcpy(&half, p, sizeof half);
  return to_float(half);
}

}  // namespace LLM_ISA
}  // namespace llm
