// Int4: tiles of nibbles behind 16 headers of 16 bits, a row each. value = d * (level - z); d is
// the float16 (header & 0xffc0) >> 1, z is (header & 63) / 4. core/quant/blocks/tiles.py defines
// it.
#pragma once

#include "quant/tiles.h"

namespace llm {
namespace LLM_ISA {

struct Int4Tiles : NibbleTiles<Int4Tiles> {
  static constexpr int kTileBytes = kTileRows * (2 + 32 / 2), kParts = 1;
  static constexpr bool kHasMinimum = false;

  static const uint8_t* groups(const uint8_t* tile, int) { return tile + 2 * kTileRows; }

  static I32 zeros(const uint8_t* tile, int, int lanes) {
    return (I32)widen_u16(reinterpret_cast<const uint16_t*>(tile) + lanes * kWidth) & 63;
  }

  // d has 6 bits and z 6, so m and every value are exact.
  static LaneScales scales(const uint8_t* tile, int, int lanes, int) {
    const F32 d = scale_of(reinterpret_cast<const uint16_t*>(tile) + lanes * kWidth);
    return {d, d * (to_f32(zeros(tile, 0, lanes)) * -0.25f)};
  }

  static float value(const uint8_t* tile, int row, int column) {
    uint16_t header;
    std::memcpy(&header, tile + 2 * row, sizeof header);
    const int level = tile_nibble(groups(tile, 0), row, column);
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

}  // namespace LLM_ISA
}  // namespace llm
