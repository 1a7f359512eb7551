// Integer dot products with a row of weights in each lane: no sums across lanes.
//
// A word of 32 bits holds four levels of a row; it meets the word of the same four activations,
// which every lane gets. Without instructions for such products, levels of up to 6 bits are small
// enough for maddubs, whose sums have 16 bits; other words are split into pairs of 16-bit integers,
// (0, 2) and (1, 3).
//
// Activations are int8 + zero. Pairs take the zero point in; for bytes it meets the sum of a row's
// levels, which is taken once for all tokens.
#pragma once

#include "base/simd.h"
#include "quant/a8.h"
#include "quant/levels.h"

namespace llm {
namespace LLM_ISA {

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(__ARM_FEATURE_DOTPROD)
constexpr bool kHasByteDot = true;
#else
constexpr bool kHasByteDot = false;
#endif
#if defined(__AVX2__)
constexpr bool kHasMaddubs = true;
#else
constexpr bool kHasMaddubs = false;
#endif

typedef int16_t I16 __attribute__((vector_size(4 * kWidth)));
typedef int16_t Pairs16 __attribute__((vector_size(32), aligned(1), may_alias));

// Words of a block of 32 columns: 8 of bytes, or 16 of pairs.
template <Levels kLevels>
constexpr bool kInBytes = kHasByteDot || (kHasMaddubs && kLevels != Levels::kBytes);
template <Levels kLevels>
constexpr int kBlockWords = kInBytes<kLevels> ? 8 : 16;

// Whether sums of products have 16 bits, two in a lane, and of how many words of a block one has
// room for: a product of two pairs of bytes reaches 2 * 128 times the level. So 8, 4 or 2.
template <Levels kLevels>
constexpr bool kIn16Bits = kInBytes<kLevels> && !kHasByteDot;
template <Levels kLevels>
constexpr int kWordsPerSum =
    kIn16Bits<kLevels> ? INT16_MAX / (256 * kMostLevel<kLevels>) : kBlockWords<kLevels>;

inline I32 spread(int32_t word) { return I32{} + word; }

// levels: as many vectors as kBlockWords says
template <Levels kLevels>
inline void split_levels(const I32 (&words)[8], I32* levels) {
  for (int g = 0; g < 8; ++g) {
    if constexpr (kInBytes<kLevels>) {
      levels[g] = words[g];
    } else {
      levels[g] = (I32)(((I16)words[g] << 8) >> 8);
      levels[8 + g] = (I32)((I16)words[g] >> 8);
    }
  }
}

// A part of a tile as split_levels takes it: pairs meet activations with their zero point, so that
// levels need theirs.
template <typename Format>
inline void product_levels(const uint8_t* tile, int part, int lanes, I32 (&words)[8]) {
  if constexpr (kInBytes<Format::kLevels>) {
    Format::levels(tile, part, lanes, words);
  } else {
    Format::plain_levels(tile, part, lanes, words);
  }
}

// A block of activations as pairs, with their zero point: int32 [16], of which the first 8 are of
// even columns
inline void split_pairs(const A8Row& x, int64_t block, int32_t* pairs) {
  Pairs16 v;
  std::memcpy(&v, x.values + kA8Block * block, sizeof v);
  const Pairs16 zero = Pairs16{} + x.offsets[block].zero;
  const Pairs16 even = ((v << 8) >> 8) + zero, odd = (v >> 8) + zero;
  std::memcpy(pairs, &even, sizeof even);
  std::memcpy(pairs + 8, &odd, sizeof odd);
}

// The activations of a block as the levels are split: bytes without the zero point, or pairs.
template <Levels kLevels>
class XWords {
 public:
  // words: 32 bytes, or what split_pairs makes
  explicit XWords(const void* words) : bytes_(static_cast<const int8_t*>(words)) {}
  int32_t at(int index) const {
    int32_t word;
    std::memcpy(&word, address(index), sizeof word);
    return word;
  }
  const int8_t* address(int index) const { return bytes_ + 4 * index; }

 private:
  const int8_t* bytes_;
};

// sums + levels . x; the sums are 32 bits wide, or 16 (kIn16Bits).
template <Levels kLevels>
inline I32 add_products(I32 sums, I32 levels, int32_t x) {
#if defined(__AVX512VNNI__)
  return (I32)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)levels, _mm512_set1_epi32(x));
#elif defined(__AVXVNNI__)
  return (I32)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)levels, _mm256_set1_epi32(x));
#elif defined(__AVX512F__)
  if constexpr (kIn16Bits<kLevels>) {
    return (I32)((I16)sums + (I16)_mm512_maddubs_epi16((__m512i)levels, _mm512_set1_epi32(x)));
  }
  return sums + (I32)_mm512_madd_epi16((__m512i)levels, _mm512_set1_epi32(x));
#elif defined(__AVX2__)
  if constexpr (kIn16Bits<kLevels>) {
    return (I32)((I16)sums + (I16)_mm256_maddubs_epi16((__m256i)levels, _mm256_set1_epi32(x)));
  }
  return sums + (I32)_mm256_madd_epi16((__m256i)levels, _mm256_set1_epi32(x));
#elif defined(__SSE2__)
  return sums + (I32)_mm_madd_epi16((__m128i)levels, _mm_set1_epi32(x));
#elif defined(__ARM_FEATURE_DOTPROD)
  return (I32)vdotq_s32((int32x4_t)sums, (int8x16_t)levels, vreinterpretq_s8_s32(vdupq_n_s32(x)));
#else
  const I32 low = (levels << 16) >> 16, high = levels >> 16;
  return sums + low * static_cast<int16_t>(x) + high * (x >> 16);
#endif
}

// As add_products, of four bytes in memory, which one instruction broadcasts and multiplies where
// there is one.
template <Levels kLevels>
inline I32 add_products_at(I32 sums, I32 levels, const int8_t* x) {
#if defined(__AVX512VNNI__)
  typedef int32_t Word __attribute__((aligned(1), may_alias));
  const auto* at = reinterpret_cast<const Word*>(x);
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(levels), "m"(*at));
  return sums;
#else
  int32_t word;
  std::memcpy(&word, x, sizeof word);
  return add_products<kLevels>(sums, levels, word);
#endif
}

// Sums 32 bits wide, times kTimes where they have been 16 bits wide.
template <Levels kLevels, int kTimes = 1>
inline I32 widen_sums(I32 sums) {
#if defined(__AVX512F__)
  if constexpr (kIn16Bits<kLevels>)
    return (I32)_mm512_madd_epi16((__m512i)sums, _mm512_set1_epi16(kTimes));
#elif defined(__AVX2__)
  if constexpr (kIn16Bits<kLevels>)
    return (I32)_mm256_madd_epi16((__m256i)sums, _mm256_set1_epi16(kTimes));
#endif
  return sums;
}

// Of the width that add_products leaves
template <Levels kLevels>
inline I32 add_sums(I32 a, I32 b) {
  if constexpr (kIn16Bits<kLevels>) return (I32)((I16)a + (I16)b);
  return a + b;
}

// Of words, byte by byte
template <int kWords>
inline I32 sum_words(const I32* words) {
  if constexpr (kWords == 1) return words[0];
  constexpr int kHalf = kWords / 2;
  const auto high = (U32)sum_words<kWords - kHalf>(words + kHalf);
  return (I32)((U32)sum_words<kHalf>(words) + high);  // the highest byte may reach the sign
}

// Of the words of one scale, a row a lane; as many as a byte has room for are added as bytes.
template <Levels kLevels, int kWords = 8>
inline I32 level_sums(const I32* levels) {
  constexpr int kMostByte = kHasMaddubs ? 255 : 127;  // where levels are multiplied as signed bytes
  constexpr int kFit = kMostByte / kMostLevel<kLevels>;
  constexpr int kStep = kFit >= kWords ? kWords : kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;
  constexpr int32_t kOnes = 0x01010101;
  I32 sums = {}, more = {};
#pragma GCC unroll 4
  for (int i = 0; i < kWords; i += 2 * kStep) {
    sums = add_products<kLevels>(sums, sum_words<kStep>(levels + i), kOnes);
    if constexpr (kStep < kWords) {
      more = add_products<kLevels>(more, sum_words<kStep>(levels + i + kStep), kOnes);
    }
  }
  return widen_sums<kLevels>(add_sums<kLevels>(sums, more));
}

// What bytes of activations lack, a row of weights a lane: pairs of 16-bit integers that meet
// (zero, total) of the activations.
inline I32 offset_pairs(I32 level_sums, I32 level_zero) {
  return (level_sums & 0xffff) - level_zero * (1 << 16);
}

// sums + pairs . (zero, total)
inline I32 add_offset(I32 sums, I32 pairs, const A8Offset& x) {
  int32_t word;
  std::memcpy(&word, &x, sizeof word);
#if defined(__AVX512VNNI__)
  return (I32)_mm512_dpwssd_epi32((__m512i)sums, (__m512i)pairs, _mm512_set1_epi32(word));
#elif defined(__AVXVNNI__)
  return (I32)_mm256_dpwssd_avx_epi32((__m256i)sums, (__m256i)pairs, _mm256_set1_epi32(word));
#elif defined(__AVX512F__)
  return sums + (I32)_mm512_madd_epi16((__m512i)pairs, _mm512_set1_epi32(word));
#elif defined(__AVX2__)
  return sums + (I32)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi32(word));
#else
  const I32 first = (pairs << 16) >> 16, second = pairs >> 16;
  return sums + first * x.zero + second * x.total;
#endif
}

// Which word of a block the i-th one of a scale is.
template <Levels kLevels, int kScales>
constexpr int word_of(int scale, int i) {
  if (kScales == 1) return i;
  return kInBytes<kLevels> ? 4 * scale + i : i / 4 * 8 + 4 * scale + i % 4;
}

// levels . x over the columns of a scale; two sums, since each product waits for the one before.
template <Levels kLevels, int kScales = 1>
inline I32 block_dots(const I32* levels, const XWords<kLevels>& x, int scale = 0) {
  constexpr int kHalf = kBlockWords<kLevels> / kScales / 2;
  static_assert(kHalf <= kWordsPerSum<kLevels>);
  I32 a = {}, b = {};
  for (int i = 0; i < kHalf; ++i) {
    const int first = word_of<kLevels, kScales>(scale, i);
    const int second = word_of<kLevels, kScales>(scale, kHalf + i);
    a = add_products_at<kLevels>(a, levels[first], x.address(first));
    b = add_products_at<kLevels>(b, levels[second], x.address(second));
  }
  if constexpr (2 * kHalf > kWordsPerSum<kLevels>) {
    return widen_sums<kLevels>(a) + widen_sums<kLevels>(b);
  }
  return widen_sums<kLevels>(add_sums<kLevels>(a, b));
}

}  // namespace LLM_ISA
}  // namespace llm
