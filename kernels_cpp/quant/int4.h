// Int4: tiles of 16 rows x 32 columns, so that a lane of a register is a row.
//
// 16 headers of 16 bits, a row each, then four groups j of 64 bytes, four for each row: low nibbles
// are columns 4j.., high ones 16 + 4j.. . value = d * (level - z); d is the float16
// (header & 0xffc0) >> 1, z is (header & 63) / 4. core/quant/blocks/int4.py defines it.
#pragma once

#include "plan/op.h"
#include "quant/bytes32.h"

namespace llm {
namespace LLM_ISA {

// A scale and a minimum a row: value = d * level + m
struct LaneScales {
  F32 d, m;
};

// Of four groups j of 64 bytes, a word for each of 16 rows: columns 4j.. in the low nibbles and
// 16 + 4j.. in the high ones, of the kWidth rows of a part, a row a lane
inline void unpack_tile_nibbles(const uint8_t* groups, int part, int j, I32& low, I32& high) {
  const I32 packed = load(reinterpret_cast<const int32_t*>(groups + 64 * j) + part * kWidth);
  low = packed & 0x0f0f0f0f;
  high = (packed >> 4) & 0x0f0f0f0f;
}

// words[g]: columns 4g..4g+3
inline void unpack_tile_nibbles(const uint8_t* groups, int part, I32 (&words)[8]) {
  for (int j = 0; j < 4; ++j) unpack_tile_nibbles(groups, part, j, words[j], words[4 + j]);
}

inline int tile_nibble(const uint8_t* groups, int row, int column) {
  const int at = column % 16;
  const uint8_t both = groups[at / 4 * 64 + 4 * row + at % 4];
  return column < 16 ? both & 15 : both >> 4;
}

// What formats of 4 bits in tiles share; kBytes of scales come first.
template <int kBytes>
struct NibbleTiles {
  static constexpr int kHeader = kBytes;
  static constexpr bool kNibbles = true;

  static void levels(const uint8_t* tile, int part, I32 (&words)[8]) {
    unpack_tile_nibbles(tile + kHeader, part, words);
  }
  static void plain_levels(const uint8_t* tile, int part, I32 (&words)[8]) {
    levels(tile, part, words);
  }
};

struct Int4 : NibbleTiles<32> {
  static constexpr int kTileBytes = 288;
  static constexpr bool kHasMinimum = false;

  // z in quarters
  static I32 zeros(const uint8_t* tile, int part) {
    return (I32)widen_u16(reinterpret_cast<const uint16_t*>(tile) + part * kWidth) & 63;
  }

  // d has 6 bits and z 6, so m and every value are exact.
  static LaneScales scales(const uint8_t* tile, int part) {
    const F32 d = scale_of(reinterpret_cast<const uint16_t*>(tile) + part * kWidth);
    return {d, d * (to_f32(zeros(tile, part)) * -0.25f)};
  }

  static float value(const uint8_t* tile, int row, int column) {
    uint16_t header;
    std::memcpy(&header, tile + 2 * row, sizeof header);
    const int level = tile_nibble(tile + kHeader, row, column);
    const float d = to_float(Half{static_cast<uint16_t>((header & 0xffc0) >> 1)});
    return d * (static_cast<float>(level) - static_cast<float>(header & 63) * 0.25f);
  }

 private:
  static F32 scale_of(const uint16_t* headers) {
#if defined(__AVX512F__)
    const __m256i u = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(headers));
    const __m256i bits = _mm256_srli_epi16(_mm256_and_si256(u, _mm256_set1_epi16(~63)), 1);
    return (F32)_mm512_cvtph_ps(bits);
#elif defined(__AVX2__)
    const __m128i u = _mm_loadu_si128(reinterpret_cast<const __m128i*>(headers));
    const __m128i bits = _mm_srli_epi16(_mm_and_si128(u, _mm_set1_epi16(~63)), 1);
    return (F32)_mm256_cvtph_ps(bits);
#elif defined(__aarch64__)
    const uint16x4_t u = vand_u16(vld1_u16(headers), vdup_n_u16(0xffc0));
    return (F32)vcvt_f32_f16(vreinterpret_f16_u16(vshr_n_u16(u, 1)));
#else
    return widen_half((widen_u16(headers) & 0xffc0u) >> 1);
#endif
  }
};
static_assert(Int4::kTileBytes == kTileRows * (2 + 32 / 2), "a header and 32 nibbles a row");

}  // namespace LLM_ISA
}  // namespace llm
