// Vectors of float32 as wide as the instruction set allows. Compiled once for each set, in a
// namespace of its own (LLM_ISA), so no two builds of a function share a name.
//
// Written with the vector extension that GCC and Clang share; intrinsics only where it has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace llm {
namespace LLM_ISA {

#if defined(__AVX512F__)
constexpr int kWidth = 16;  // float32 lanes
#elif defined(__AVX2__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif

typedef float F32 __attribute__((vector_size(4 * kWidth)));
typedef int32_t I32 __attribute__((vector_size(4 * kWidth)));
typedef uint32_t U32 __attribute__((vector_size(4 * kWidth)));
typedef float UnalignedF32 __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));

// How far ahead of a stream of weights memory is asked for: processors stop their own prefetching
// at the end of a page of 4 KiB. The second cache has room for what comes from far, the first one
// only for what is about to be used, and few requests at once.
constexpr int kFarBytes = 8192, kNearBytes = 1024;

// Asks for what lies so far behind the next `bytes` of a stream.
inline void ask_ahead(const void* stream, int bytes) {
  const auto* at = static_cast<const uint8_t*>(stream);
  for (int line = 0; line < bytes; line += 64) {
    __builtin_prefetch(at + kFarBytes + line, 0, 2);
    __builtin_prefetch(at + kNearBytes + line);
  }
}

struct Half {  // IEEE 754 binary16
  uint16_t bits;
};
struct Brain {  // the upper half of a binary32
  uint16_t bits;
};

// A loop over lanes becomes as many instructions in GCC 12.
inline F32 broadcast(float x) {
#if defined(__AVX512F__)
  return (F32)_mm512_set1_ps(x);
#elif defined(__AVX2__)
  return (F32)_mm256_set1_ps(x);
#else
  F32 v;
  for (int i = 0; i < kWidth; ++i) v[i] = x;
  return v;
#endif
}

inline U32 bits_of(F32 x) { return (U32)x; }
inline F32 from_bits(U32 x) { return (F32)x; }
inline F32 choose(I32 mask, F32 yes, F32 no) {
  return from_bits(((U32)mask & bits_of(yes)) | (~(U32)mask & bits_of(no)));
}
// b where one of them is NaN
inline F32 max(F32 a, F32 b) {
#if defined(__AVX512F__)
  return (F32)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (F32)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return choose(a > b, a, b);
#endif
}
inline F32 min(F32 a, F32 b) {
#if defined(__AVX512F__)
  return (F32)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (F32)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return choose(a < b, a, b);
#endif
}
inline F32 abs(F32 x) { return from_bits(bits_of(x) & 0x7fffffffu); }

inline F32 load(const float* p) { return *reinterpret_cast<const UnalignedF32*>(p); }
inline void store(float* p, F32 v) { *reinterpret_cast<UnalignedF32*>(p) = v; }

// Past the caches, where instructions for that are; `p` is a multiple of a vector. For results that
// are too many to be read from a cache. `after_streaming` before others read them.
inline void stream(float* p, F32 v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, (__m256)v);
#else
  store(p, v);
#endif
}
inline void after_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

inline I32 load(const int32_t* p) {
  I32 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline U32 widen_u16(const uint16_t* p) {
#if defined(__AVX512F__)
  return (U32)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  return (U32)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  U32 v;
  for (int i = 0; i < kWidth; ++i) v[i] = p[i];
  return v;
#endif
}

inline U32 widen_u8(const uint8_t* p) {
#if defined(__AVX512F__)
  return (U32)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__AVX2__)
  return (U32)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  U32 v;
  for (int i = 0; i < kWidth; ++i) v[i] = p[i];
  return v;
#endif
}

// binary16 -> binary32 in plain arithmetic: multiplying by 2^112 moves the exponent's bias and
// makes subnormal numbers normal; infinity and NaN get the largest exponent.
inline F32 widen_half(U32 half) {
  const U32 magnitude = (half & 0x7fffu) << 13;
  const F32 value = from_bits(magnitude) * 0x1p112f;
  const F32 special = from_bits(magnitude | 0x7f800000u);
  const F32 unsigned_value = choose((half & 0x7fffu) >= 0x7c00u, special, value);
  return from_bits(bits_of(unsigned_value) | ((half & 0x8000u) << 16));
}

inline F32 load(const Half* p) {
#if defined(__AVX512F__)
  return (F32)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  return (F32)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__aarch64__)
  return (F32)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&p->bits)));
#else
  return widen_half(widen_u16(&p->bits));
#endif
}

#if defined(__AVX2__)
// Eight of them, `stride` bytes apart
inline __m128i eight_halves(const uint8_t* p, int64_t stride) {
  const auto at = [=](int i) {
    short bits;
    std::memcpy(&bits, p + i * stride, sizeof bits);
    return bits;
  };
  return _mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
}
#endif

// Halves that lie `stride` bytes apart; by way of memory a vector would wait for each of them.
inline F32 load_halves(const uint8_t* p, int64_t stride) {
#if defined(__AVX512F__)
  const __m128i low = eight_halves(p, stride), high = eight_halves(p + 8 * stride, stride);
  return (F32)_mm512_cvtph_ps(_mm256_set_m128i(high, low));
#elif defined(__AVX2__)
  return (F32)_mm256_cvtph_ps(eight_halves(p, stride));
#else
  Half halves[kWidth];
  for (int i = 0; i < kWidth; ++i) std::memcpy(halves + i, p + i * stride, sizeof(Half));
  return load(halves);
#endif
}

inline F32 load(const int8_t* p) {
#if defined(__AVX512F__)
  return (F32)_mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
  return (F32)_mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  F32 v;
  for (int i = 0; i < kWidth; ++i) v[i] = p[i];
  return v;
#endif
}

inline F32 load(const Brain* p) { return from_bits(widen_u16(&p->bits) << 16); }

// The first n lanes from memory, the others 0.
template <typename T>
inline F32 load_part(const T* p, int64_t n) {
  T lanes[kWidth] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return load(lanes);
}

inline void store_part(float* p, F32 v, int64_t n) {
  float lanes[kWidth];
  store(lanes, v);
  std::memcpy(p, lanes, n * sizeof(float));
}

inline float to_float(Half half) {
#if defined(__AVX2__)
  return _cvtsh_ss(half.bits);
#elif defined(__aarch64__)
  return static_cast<float>(__builtin_bit_cast(__fp16, half.bits));
#else
  return widen_half(U32{half.bits})[0];
#endif
}

inline float sum(F32 v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#elif defined(__AVX2__)
  __m128 x = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
#elif defined(__aarch64__)
  return vaddvq_f32((float32x4_t)v);
#else
  return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

// The sums of lanes of each vector are lanes of the result: lane i has v[0][i] + v[1][i] + .. in
// the order in which sum() adds lanes. v is used up.
inline F32 sum_vectors(F32 (&v)[kWidth]) {
#if defined(__aarch64__)
  return (v[0] + v[1]) + (v[2] + v[3]);
#else
  for (int half = kWidth / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  }
  return v[0];
#endif
}

// The same value, in a register: compilers do not load it again for each use.
inline F32 in_register(F32 x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__x86_64__)
  asm("" : "+x"(x));
#elif defined(__aarch64__)
  asm("" : "+w"(x));
#endif
  return x;
}

// The same value; compilers do not make one instruction of a product within and a sum outside.
inline F32 rounded(F32 x) { return in_register(x); }

inline float largest(F32 v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)v);
#elif defined(__AVX2__)
  __m128 x = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
#elif defined(__aarch64__)
  return vmaxvq_f32((float32x4_t)v);
#else
  const float low = v[0] > v[1] ? v[0] : v[1], high = v[2] > v[3] ? v[2] : v[3];
  return low > high ? low : high;
#endif
}

inline F32 to_f32(I32 v) { return __builtin_convertvector(v, F32); }
inline I32 to_i32(F32 v) { return __builtin_convertvector(v, I32); }

// Adding 1.5 * 2^23 leaves no room for a fraction: nearest integer, ties to even, |x| < 2^22.
inline F32 round_nearest(F32 x) {
  const F32 magic = broadcast(12582912.0f);
  return (x + magic) - magic;
}

template <int... kLanes>
inline F32 shuffle(F32 a, F32 b) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, kLanes...);
#else
  return __builtin_shuffle(a, b, I32{kLanes...});
#endif
}

// Lane i: lanes i and i ^ kBit joined, of b where i has the bit, else of a.
template <int kBit, typename Join, int... i>
inline F32 fold(F32 a, F32 b, const Join& join, std::integer_sequence<int, i...>) {
  const F32 own = shuffle<((i & kBit) ? i + kWidth : i)...>(a, b);
  const F32 other = shuffle<((i & kBit) ? (i ^ kBit) + kWidth : (i ^ kBit))...>(a, b);
  return join(own, other);
}

// Lane i of the result: v[i]'s lanes joined. v is used up.
template <int kBit = 1, typename Join>
inline F32 join_each(F32 (&v)[kWidth], const Join& join) {
  if constexpr (kBit < kWidth) {
    for (int i = 0; i < kWidth; i += 2 * kBit) {
      v[i] = fold<kBit>(v[i], v[i + kBit], join, std::make_integer_sequence<int, kWidth>());
    }
    return join_each<2 * kBit>(v, join);
  }
  return v[0];
}

inline F32 sum_each(F32 (&v)[kWidth]) {
  return join_each(v, [](F32 a, F32 b) { return a + b; });
}
inline F32 largest_each(F32 (&v)[kWidth]) {
  return join_each(v, [](F32 a, F32 b) { return max(a, b); });
}
inline F32 smallest_each(F32 (&v)[kWidth]) {
  return join_each(v, [](F32 a, F32 b) { return min(a, b); });
}

// Rows become columns: lane j of v[i] changes places with lane i of v[j]; in each part of kRows
// lanes by itself.
template <int kBit, int... i>
inline void exchange(F32& a, F32& b, std::integer_sequence<int, i...>) {
  const F32 low = shuffle<((i & kBit) ? (i ^ kBit) + kWidth : i)...>(a, b);
  const F32 high = shuffle<((i & kBit) ? i + kWidth : (i ^ kBit))...>(a, b);
  a = low;
  b = high;
}

template <int kBit = 1, int kRows>
inline void transpose(F32 (&v)[kRows]) {
  if constexpr (kBit < kRows) {
    for (int i = 0; i < kRows; ++i) {
      if (!(i & kBit)) {
        exchange<kBit>(v[i], v[i + kBit], std::make_integer_sequence<int, kWidth>());
      }
    }
    transpose<2 * kBit>(v);
  }
}

// x[i] . y[i] over n values, still to be summed over lanes
template <typename X, typename Y>
inline F32 dot_lanes(const X* x, const Y* y, int64_t n) {
  F32 a = {}, b = {};
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    a += load(x + i) * load(y + i);
    b += load(x + i + kWidth) * load(y + i + kWidth);
  }
  for (; i + kWidth <= n; i += kWidth) a += load(x + i) * load(y + i);
  if (i < n) b += load_part(x + i, n - i) * load_part(y + i, n - i);
  return a + b;
}

template <typename X, typename Y>
inline float dot(const X* x, const Y* y, int64_t n) {
  return sum(dot_lanes(x, y, n));
}

}  // namespace LLM_ISA
}  // namespace llm
