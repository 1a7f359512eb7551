// The 32 levels of a quantized block in registers, and their dot product with 32 values that are
// int8 + zero.
//
// kBiased: the instruction set multiplies unsigned by signed bytes and accumulates in 32 bits
// (VNNI), so int8 levels are kept with 128 added. Without it, products of nibbles fit the 16 bits
// of maddubs, and int8 levels move their sign to the other factor.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kBiased = true;
#else
constexpr bool kBiased = false;
#endif

#if defined(__AVX2__)

typedef __m256i Bytes32;
typedef __m256i Sums;      // 8 lanes of int32
typedef __m256 FloatSums;  // the same as float32
constexpr int kSumLanes = 8;

inline Bytes32 load_bytes(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

inline void store_bytes(void* p, Bytes32 v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

// 16 bytes -> low nibbles, then high nibbles
inline Bytes32 unpack_nibbles(const uint8_t* packed) {
  const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed));
  const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(q), _mm_srli_epi16(q, 4), 1);
  return _mm256_and_si256(both, _mm256_set1_epi8(0x0f));
}

inline Bytes32 flip_sign_bits(Bytes32 v) { return _mm256_xor_si256(v, _mm256_set1_epi8(-128)); }

// Levels are nibbles unless kBiased.
inline Sums dot_unsigned(Bytes32 levels, Bytes32 x, int zero) {
  const __m256i zeros = _mm256_set1_epi8(static_cast<int8_t>(zero));
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  const __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), levels, x);
  return _mm256_dpbusd_epi32(sums, levels, zeros);
#elif defined(__AVXVNNI__)
  const __m256i sums = _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), levels, x);
  return _mm256_dpbusd_avx_epi32(sums, levels, zeros);
#else
  const __m256i a = _mm256_maddubs_epi16(levels, x), b = _mm256_maddubs_epi16(levels, zeros);
  return _mm256_madd_epi16(_mm256_add_epi16(a, b), _mm256_set1_epi16(1));
#endif
}

// |level| is at most 128 and |x| at most 127, so two products fit 16 bits.
inline Sums dot_signed(Bytes32 levels, Bytes32 x) {
  const __m256i size = _mm256_abs_epi8(levels), ones = _mm256_set1_epi16(1);
  return _mm256_madd_epi16(_mm256_maddubs_epi16(size, _mm256_sign_epi8(x, levels)), ones);
}
inline Sums dot_signed(Bytes32 levels, Bytes32 x, int zero) {
  const __m256i zeros = _mm256_set1_epi8(static_cast<int8_t>(zero));
  return _mm256_add_epi32(dot_signed(levels, x), dot_signed(levels, zeros));
}

inline FloatSums zero_sums() { return _mm256_setzero_ps(); }
inline FloatSums add_scaled(Sums sums, float scale, FloatSums to) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(scale), to);
}

inline float total(FloatSums v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

#else

struct Bytes32 {
  uint8_t at[32];
};
#if defined(__SSE2__)
typedef __m128i Sums;
#elif defined(__aarch64__)
typedef int32x4_t Sums;
#else
typedef I32 Sums;
#endif
typedef F32 FloatSums;
constexpr int kSumLanes = 4;

inline Bytes32 load_bytes(const void* p) {
  Bytes32 v;
  std::memcpy(v.at, p, 32);
  return v;
}

inline void store_bytes(void* p, const Bytes32& v) { std::memcpy(p, v.at, 32); }

inline Bytes32 flip_sign_bits(Bytes32 v) {
  for (uint8_t& byte : v.at) byte ^= 0x80;
  return v;
}

inline Bytes32 unpack_nibbles(const uint8_t* packed) {
  Bytes32 v;
  for (int i = 0; i < 16; ++i) v.at[i] = packed[i] & 0x0f;
  for (int i = 0; i < 16; ++i) v.at[16 + i] = packed[i] >> 4;
  return v;
}

#if defined(__SSE2__)

inline Sums dot_signed(const Bytes32& levels, const Bytes32& x, int zero_point) {
  const __m128i offset = _mm_set1_epi16(static_cast<int16_t>(zero_point));
  __m128i sums = _mm_setzero_si128();
  for (int i = 0; i < 32; i += 16) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels.at + i));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x.at + i));
    const __m128i zero = _mm_setzero_si128();  // bytes to the upper halves, then shifted down
    const __m128i a0 = _mm_srai_epi16(_mm_unpacklo_epi8(zero, a), 8);
    const __m128i b0 = _mm_add_epi16(_mm_srai_epi16(_mm_unpacklo_epi8(zero, b), 8), offset);
    const __m128i a1 = _mm_srai_epi16(_mm_unpackhi_epi8(zero, a), 8);
    const __m128i b1 = _mm_add_epi16(_mm_srai_epi16(_mm_unpackhi_epi8(zero, b), 8), offset);
    sums = _mm_add_epi32(sums, _mm_madd_epi16(a0, b0));
    sums = _mm_add_epi32(sums, _mm_madd_epi16(a1, b1));
  }
  return sums;
}

#elif defined(__aarch64__)

inline Sums dot_signed(const Bytes32& levels, const Bytes32& x, int zero) {
  int32x4_t sums = vdupq_n_s32(0);
  for (int i = 0; i < 32; i += 16) {
    const int8x16_t a = vreinterpretq_s8_u8(vld1q_u8(levels.at + i));
    const int8x16_t b = vreinterpretq_s8_u8(vld1q_u8(x.at + i));
#if defined(__ARM_FEATURE_DOTPROD)
    sums = vdotq_s32(vdotq_s32(sums, a, b), a, vdupq_n_s8(static_cast<int8_t>(zero)));
#else
    sums = vpadalq_s16(sums, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    sums = vpadalq_s16(sums, vmull_s8(vget_high_s8(a), vget_high_s8(b)));
    sums = vmlaq_n_s32(sums, vpaddlq_s16(vpaddlq_s8(a)), zero);
#endif
  }
  return sums;
}

#else

inline Sums dot_signed(const Bytes32& levels, const Bytes32& x, int zero) {
  int32_t total = 0;
  for (int i = 0; i < 32; ++i) {
    total += static_cast<int8_t>(levels.at[i]) * (static_cast<int8_t>(x.at[i]) + zero);
  }
  return Sums{total};
}

#endif

// Nibbles are below 128, so they may be taken as signed.
inline Sums dot_unsigned(const Bytes32& levels, const Bytes32& x, int zero) {
  return dot_signed(levels, x, zero);
}

inline FloatSums zero_sums() { return F32{}; }
inline FloatSums add_scaled(Sums sums, float scale, FloatSums to) {
  return to_f32((I32)sums) * scale + to;
}
inline float total(FloatSums v) { return sum(v); }

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

// value = d * level + m
struct Scale {
  float d, m;
};

inline float half_at(const uint8_t* p) {
  Half half;
  std::memcpy(&half, p, sizeof half);
  return to_float(half);
}

#if defined(__AVX512F__)

// 16 + 16 bytes -> the levels of two blocks
inline __m512i unpack_nibbles(const uint8_t* first, const uint8_t* second) {
  const __m128i q0 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
  const __m128i q1 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second));
  const __m512i pair =
      _mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(q0), q1, 1));
  const __m512i spread = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 2, 3, 2, 1, 0, 1, 0), pair);
  const __m512i shifts = _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0);
  return _mm512_and_si512(_mm512_srlv_epi64(spread, shifts), _mm512_set1_epi8(0x0f));
}

// zeros: the zero point of each byte's block
inline __m512i dot_unsigned(__m512i levels, __m512i x, __m512i zeros) {
#if defined(__AVX512VNNI__)
  const __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), levels, x);
  return _mm512_dpbusd_epi32(sums, levels, zeros);
#else
  const __m512i a = _mm512_maddubs_epi16(levels, x), b = _mm512_maddubs_epi16(levels, zeros);
  return _mm512_madd_epi16(_mm512_add_epi16(a, b), _mm512_set1_epi16(1));
#endif
}

#endif

}  // namespace LLM_ISA
}  // namespace llm
