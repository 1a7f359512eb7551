// Products of few tokens with tiles of 16 rows x 32 columns, which are read once, as they lie
// there.
#pragma once

#include "ops/digits.h"
#include "ops/groups.h"
#include "ops/lanes_a8.h"
#include "quant/a8.h"
#include "quant/formats.h"

namespace llm {
namespace LLM_ISA {

constexpr int kParts = kTileRows / kWidth;  // registers that the rows of a tile take
constexpr int kTileTokens = 4;              // at most, that share a pass over the tiles

// Floats meet nibbles as digits where there are products of bytes.
template <typename Format>
constexpr bool kByDigits = Format::kNibbles && kInBytes<true>;
constexpr size_t kDigitScratch = 2 * sizeof(float) + kDigitBytes;  // of a block of a token

// Lanes of every part and token, for the 16 rows of a row of tiles.
template <int kTokens>
struct TileSums {
  F32 of[kTokens][kParts];
};

// Nibbles with maddubs, which leaves few registers: all parts take turns, so that they share what
// is broadcast and levels are used as they are unpacked.
inline void tile_dots_in_turns(const uint8_t* groups, const A8Row& x, int64_t b,
                               I32 (&dots)[kParts]) {
  const XWords<true> words(x, b);
  I16 low_sums[kParts] = {}, high_sums[kParts] = {};
  I32 levels[kParts] = {};
  for (int j = 0; j < 4; ++j) {
    for (int part = 0; part < kParts; ++part) {
      I32 low, high;
      unpack_tile_nibbles(groups, part, j, low, high);
      low_sums[part] = (I16)add_products<true>((I32)low_sums[part], low, words.at(j));
      high_sums[part] = (I16)add_products<true>((I32)high_sums[part], high, words.at(4 + j));
      levels[part] += low + high;  // eight still fit a byte
    }
  }
  const int32_t zero = static_cast<int32_t>(0x01010101u * static_cast<uint8_t>(x.offsets[b].zero));
  for (int part = 0; part < kParts; ++part) {
    dots[part] = widen_sums<true>((I32)(low_sums[part] + high_sums[part])) +
                 widen_sums<true>(add_products<true>(I32{}, levels[part], zero));
  }
}

template <typename Format, int kTokens>
inline void add_tile_a8(const uint8_t* tile, int64_t b, const A8Row (&x)[kTokens],
                        TileSums<kTokens>& totals) {
  constexpr bool kNibbles = Format::kNibbles;
  if constexpr (kTokens == 1 && kInBytes<kNibbles> && !kHasByteDot) {
    I32 dots[kParts];
    tile_dots_in_turns(tile + Format::kHeader, x[0], b, dots);
    for (int part = 0; part < kParts; ++part) {
      const LaneScales scales = Format::scales(tile, part);
      F32& total = totals.of[0][part];
      total += to_f32(dots[part]) * (scales.d * x[0].scales[b].scale);
      total += scales.m * x[0].scales[b].sum;
    }
    return;
  }
  for (int part = 0; part < kParts; ++part) {
    I32 words[8], levels[kBlockWords<kNibbles>];
    Format::levels(tile, part, words);
    split_levels<kNibbles>(words, levels);
    const LaneScales scales = Format::scales(tile, part);
    I32 pairs = {};
    if constexpr (kInBytes<kNibbles>) {
      pairs = offset_pairs(level_sums<kNibbles>(levels), spread(kNibbles ? 0 : Int8Tiles::kZero));
    }
    for (int t = 0; t < kTokens; ++t) {
      const XWords<kNibbles> values(x[t], b);
      I32 products = block_dots<kNibbles>(levels, values);
      if constexpr (kInBytes<kNibbles>) products = add_offset(products, pairs, x[t].offsets[b]);
      F32& total = totals.of[t][part];
      total += to_f32(products) * (scales.d * x[t].scales[b].scale);
      if constexpr (kNibbles) total += scales.m * x[t].scales[b].sum;
    }
  }
}

struct FloatX {
  const float* values;  // [K]
  float* sums;          // [K / 32], of blocks
};

// The level of each row in column 4g + i of its block; words: of columns 4g..4g+3
template <typename Format>
inline F32 float_levels(I32 words, int i) {
  if constexpr (Format::kNibbles) {
#if defined(__AVX512F__)
    const __m512 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (F32)_mm512_permutexvar_ps((__m512i)(words >> (8 * i)), table);  // lowest 4 bits
#else
    return to_f32((words >> (8 * i)) & 15);
#endif
  }
  return to_f32((words << (24 - 8 * i)) >> 24);
}

template <typename Format, int kTokens>
inline void add_tile_a32(const uint8_t* tile, int64_t b, const FloatX (&x)[kTokens],
                         TileSums<kTokens>& totals) {
  for (int part = 0; part < kParts; ++part) {
    I32 words[8];
    Format::plain_levels(tile, part, words);
    F32 even[kTokens] = {}, odd[kTokens] = {};
    for (int g = 0; g < 8; ++g) {
      for (int i = 0; i < 4; ++i) {
        const F32 levels = float_levels<Format>(words[g], i);
        for (int t = 0; t < kTokens; ++t) {
          (i % 2 ? odd : even)[t] += levels * x[t].values[32 * b + 4 * g + i];
        }
      }
    }
    const LaneScales scales = Format::scales(tile, part);
    for (int t = 0; t < kTokens; ++t) {
      F32& total = totals.of[t][part];
      total += (even[t] + odd[t]) * scales.d;
      if constexpr (Format::kNibbles) total += scales.m * x[t].sums[b];
    }
  }
}

template <typename Format>
inline void add_tile_digits(const uint8_t* tile, int64_t b, const DigitsX& x,
                            F32 (&totals)[kParts]) {
  F32 dots[kParts];
  digit_dots(tile + Format::kHeader, x.digits + kDigitBytes * b, dots);
  for (int part = 0; part < kParts; ++part) {
    const LaneScales scales = Format::scales(tile, part);
    totals[part] += dots[part] * (scales.d * x.steps[b]);
    totals[part] += scales.m * x.sums[b];
  }
}

template <int kTokens>
inline void store_tile_sums(const TileSums<kTokens>& totals, const Tensor& y, int64_t token,
                            int64_t first, int64_t count) {
  for (int t = 0; t < kTokens; ++t) {
    float lanes[kTileRows];
    for (int part = 0; part < kParts; ++part) store(lanes + part * kWidth, totals.of[t][part]);
    std::memcpy(row<float>(y, token + t) + first, lanes, count * sizeof(float));
  }
}

// Calls add(tile, block, totals) for every tile of a row of tiles and stores the sums.
template <typename Format, int kTokens, typename Add>
inline void over_tiles(const Tensor& weight, const Tensor& y, int64_t token, Range rows,
                       const Add& add) {
  const int64_t blocks = weight.n_cols / 32;
  const uint8_t* tile = tile_row(weight, rows.begin);
  for (int64_t first = rows.begin; first < rows.end; first += kTileRows) {
    TileSums<kTokens> totals = {};
    for (int64_t b = 0; b < blocks; ++b, tile += Format::kTileBytes) {
      for (int line = 0; line < Format::kTileBytes; line += 64) {
        __builtin_prefetch(tile + kPrefetchBytes + line);
      }
      add(tile, b, totals);
    }
    const int64_t left = rows.end - first;
    store_tile_sums(totals, y, token, first, left < kTileRows ? left : kTileRows);
  }
}

template <typename Format, int kTokens>
inline void tiles_times_a8(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t token,
                           Range rows) {
  A8Row values[kTokens];
  for (int t = 0; t < kTokens; ++t) values[t] = a8_row(x, token + t);
  over_tiles<Format, kTokens>(weight, y, token, rows,
                              [&](const uint8_t* tile, int64_t b, TileSums<kTokens>& totals) {
                                add_tile_a8<Format, kTokens>(tile, b, values, totals);
                              });
}

inline void sum_blocks(const float* x, int64_t n, float* sums) {
  for (int64_t b = 0; b < n / 32; ++b) {
    F32 total = {};
    for (int j = 0; j < 32; j += kWidth) total += load(x + b * 32 + j);
    sums[b] = sum(total);
  }
}

// scratch: kDigitScratch bytes a block and token
template <typename Format, int kTokens>
inline void tiles_times_digits(const Tensor& x, const Tensor& weight, const Tensor& y,
                               int64_t token, Range rows, uint8_t* scratch) {
  const int64_t blocks = x.n_cols / 32;
  DigitsX values[kTokens];
  for (int t = 0; t < kTokens; ++t) {
    const float* from = row<const float>(x, token + t);
    auto* sums = reinterpret_cast<float*>(scratch + t * blocks * kDigitScratch);
    float* steps = sums + blocks;
    auto* digits = reinterpret_cast<int8_t*>(steps + blocks);
    sum_blocks(from, x.n_cols, sums);
    for (int64_t b = 0; b < blocks; ++b) {
      steps[b] = digit_step(from + b * 32);
      split_digits(from + b * 32, steps[b], digits + b * kDigitBytes);
    }
    values[t] = {digits, steps, sums};
  }
  over_tiles<Format, kTokens>(weight, y, token, rows,
                              [&](const uint8_t* tile, int64_t b, TileSums<kTokens>& totals) {
                                for (int t = 0; t < kTokens; ++t) {
                                  add_tile_digits<Format>(tile, b, values[t], totals.of[t]);
                                }
                              });
}

// scratch: float [K / 32] a token
template <typename Format, int kTokens>
inline void tiles_times_a32(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t token,
                            Range rows, float* scratch) {
  FloatX values[kTokens];
  for (int t = 0; t < kTokens; ++t) {
    values[t] = {row<const float>(x, token + t), scratch + t * (x.n_cols / 32)};
    sum_blocks(values[t].values, x.n_cols, values[t].sums);
  }
  over_tiles<Format, kTokens>(weight, y, token, rows,
                              [&](const uint8_t* tile, int64_t b, TileSums<kTokens>& totals) {
                                add_tile_a32<Format, kTokens>(tile, b, values, totals);
                              });
}

template <typename Format>
inline void matmul_a8_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& y,
                               int64_t tokens, Range rows) {
  in_groups<kTileTokens>(tokens, [&](int64_t token, auto count) {
    tiles_times_a8<Format, count()>(x, weight, y, token, rows);
  });
}

template <typename Format>
inline void matmul_a32_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& y,
                                int64_t tokens, Range rows, uint8_t* scratch) {
  in_groups<kTileTokens>(tokens, [&](int64_t token, auto count) {
    if constexpr (kByDigits<Format>) {
      tiles_times_digits<Format, count()>(x, weight, y, token, rows, scratch);
    } else {
      auto* sums = reinterpret_cast<float*>(scratch);
      tiles_times_a32<Format, count()>(x, weight, y, token, rows, sums);
    }
  });
}

}  // namespace LLM_ISA
}  // namespace llm
