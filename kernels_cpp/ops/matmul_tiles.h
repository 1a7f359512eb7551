// Products of few tokens with tiles of 16 rows x 32 columns, which are read once, as they lie
// there.
#pragma once

#include <algorithm>

#include "base/aligned.h"
#include "ops/digits.h"
#include "ops/groups.h"
#include "ops/kept_a8.h"
#include "quant/a8.h"
#include "quant/formats.h"

namespace llm {
namespace LLM_ISA {

constexpr int kVectors = kTileRows / kWidth;  // registers that the rows of a tile take
constexpr int kTileTokens = 4;                // at most, that share a pass over the tiles
constexpr int64_t kStreamedColumns = 16384;   // of results, see streams
constexpr int kPassRows = 8 * kTileRows;      // that all groups of tokens meet before the next ones
constexpr int kTileTokensA8 = kWidth == 16 ? 8 : 4;  // likewise, of int8

// Floats meet levels as digits where there are products of bytes.
template <typename Format>
constexpr bool kByDigits = kInBytes<Format::kLevels>;
// Those of nibbles are nearly as quick as panels of many tokens; those of bytes are not.
template <typename Format>
constexpr bool kDigitsForAll = kByDigits<Format> && Format::kLevels == Levels::kNibbles;
// Whose digits share a pass: three sums each and register
constexpr int kDigitTokens = kWidth == 16 ? 8 : 1;

// Lanes of every register and token, for the 16 rows of a row of tiles.
template <int kTokens>
struct TileSums {
  F32 of[kTokens][kVectors];
};

// Nibbles with maddubs, which leaves few registers: all of a tile take turns, so that they share
// what is broadcast and levels are used as they are unpacked.
inline void tile_dots_in_turns(const uint8_t* groups, const A8Row& x, int64_t b,
                               I32 (&dots)[kVectors]) {
  constexpr Levels kNibbles = Levels::kNibbles;
  const XWords<kNibbles> words(x.values + kA8Block * b);
  I16 low_sums[kVectors] = {}, high_sums[kVectors] = {};
  I32 levels[kVectors] = {};
  for (int j = 0; j < 4; ++j) {
    for (int lanes = 0; lanes < kVectors; ++lanes) {
      I32 low, high;
      unpack_tile_nibbles(groups, lanes, j, low, high);
      low_sums[lanes] = (I16)add_products<kNibbles>((I32)low_sums[lanes], low, words.at(j));
      high_sums[lanes] = (I16)add_products<kNibbles>((I32)high_sums[lanes], high, words.at(4 + j));
      levels[lanes] += low + high;  // eight still fit a byte
    }
  }
  const int32_t zero = static_cast<int32_t>(0x01010101u * static_cast<uint8_t>(x.offsets[b].zero));
  for (int lanes = 0; lanes < kVectors; ++lanes) {
    dots[lanes] = widen_sums<kNibbles>((I32)(low_sums[lanes] + high_sums[lanes])) +
                  widen_sums<kNibbles>(add_products<kNibbles>(I32{}, levels[lanes], zero));
  }
}

// Whether zero points of weights are taken into the integers, in quarters as they count, rather
// than what they are about as a float: panels do so (fill_block), and tiles give the same bits.
template <typename Format>
constexpr bool kZerosInIntegers =
    kInBytes<Format::kLevels> && Format::kLevels == Levels::kNibbles && !Format::kHasMinimum;

// products - zeros / 4 * the total of the activations: exact, as such numbers have 21 bits. Where
// it is done for one token only that is less work than quarters in integers.
inline F32 less_zeros(I32 products, I32 zeros, const A8Row& x, int64_t block) {
  const float total = x.offsets[block].total;
  return to_f32(products) + to_f32(zeros) * (total * -0.25f);
}

// A token's row, with what is kept of it
struct TileX : A8Row {
  HalfOffsets halves;
  int64_t token;
  const int32_t* pairs;  // of this token: [K / 32][16]; null where bytes are multiplied

  template <Levels kLevels>
  XWords<kLevels> words(int64_t block) const {
    if constexpr (kInBytes<kLevels>) return XWords<kLevels>(values + kA8Block * block);
    return XWords<kLevels>(pairs + 16 * block);
  }

  template <int kScales>
  const A8Offset& offset(int64_t block, int scale) const {
    return kScales == 1 ? offsets[block] : halves.of(block, token, scale);
  }
};

template <typename Format, int kTokens>
inline void add_part_a8(const TilePart& at, int64_t b, const TileX (&x)[kTokens],
                        TileSums<kTokens>& totals) {
  constexpr Levels kLevels = Format::kLevels;
  constexpr bool kZeros = kZerosInIntegers<Format>;
  if constexpr (kTokens == 1 && kLevels == Levels::kNibbles && kHasMaddubs && !kHasByteDot) {
    I32 dots[kVectors];
    tile_dots_in_turns(Format::groups(at.tile, at.part), x[0], b, dots);
    for (int lanes = 0; lanes < kVectors; ++lanes) {
      const LaneScales scales = Format::scales(at.tile, at.part, lanes, 0);
      F32& total = totals.of[0][lanes];
      if constexpr (kZeros) {
        const F32 exact = less_zeros(dots[lanes], Format::zeros(at.tile, at.part, lanes), x[0], b);
        total += exact * (scales.d * x[0].scales[b].scale);
      } else {
        total += to_f32(dots[lanes]) * (scales.d * x[0].scales[b].scale);
        total += scales.m * x[0].scales[b].sum;
      }
    }
    return;
  }
  constexpr int kScales = Format::kScales;
  for (int lanes = 0; lanes < kVectors; ++lanes) {
    I32 words[8], levels[kBlockWords<kLevels>];
    product_levels<Format>(at.tile, at.part, lanes, words);
    split_levels<kLevels>(words, levels);
    for (int scale = 0; scale < kScales; ++scale) {
      LaneScales scales = Format::scales(at.tile, at.part, lanes, scale);
      I32 pairs = {};
      if constexpr (kInBytes<kLevels>) {
        const I32 sums = level_sums<kLevels, 8 / kScales>(words + 8 / kScales * scale);
        if constexpr (kZeros && kTokens == 1) {
          pairs = sums;
        } else if constexpr (kZeros) {
          pairs = offset_pairs(sums * 4, Format::zeros(at.tile, at.part, lanes));
          scales.d *= 0.25f;
        } else {
          pairs = offset_pairs(sums, spread(Format::kZero));
        }
      }
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const XWords<kLevels> values = x[t].template words<kLevels>(b);
        I32 products = block_dots<kLevels, kScales>(levels, values, scale);
        if constexpr (kZeros && kTokens > 1) products *= 4;
        const A8Offset& offset = x[t].template offset<kScales>(b, scale);
        if constexpr (kInBytes<kLevels>) products = add_offset(products, pairs, offset);
        const A8Scale& of_x = x[t].scales[b];
        F32& total = totals.of[t][lanes];
        if constexpr (kZeros && kTokens == 1) {
          const F32 exact = less_zeros(products, Format::zeros(at.tile, at.part, lanes), x[t], b);
          total += exact * (scales.d * of_x.scale);
          continue;
        }
        total += to_f32(products) * (scales.d * of_x.scale);
        if constexpr (kHasM<Format> && !kZeros) {
          total += scales.m * sum_of<kScales>(of_x, offset);
        }
      }
    }
  }
}

struct FloatX {
  const float* values;  // [K]
  float* sums;          // [K / 32][scales of a part of a tile]
};

// The level of each row in column 4g + i of its block; words: of columns 4g..4g+3
template <typename Format>
inline F32 float_levels(I32 words, int i) {
  if constexpr (Format::kLevels == Levels::kNibbles) {
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
inline void add_part_a32(const TilePart& at, int64_t b, const FloatX (&x)[kTokens],
                         TileSums<kTokens>& totals) {
  constexpr int kScales = Format::kScales, kWords = 8 / kScales;
  for (int lanes = 0; lanes < kVectors; ++lanes) {
    I32 words[8];
    Format::plain_levels(at.tile, at.part, lanes, words);
    for (int scale = 0; scale < kScales; ++scale) {
      F32 even[kTokens] = {}, odd[kTokens] = {};
      for (int g = kWords * scale; g < kWords * (scale + 1); ++g) {
        for (int i = 0; i < 4; ++i) {
          const F32 levels = float_levels<Format>(words[g], i);
          for (int t = 0; t < kTokens; ++t) {
            (i % 2 ? odd : even)[t] += levels * x[t].values[32 * b + 4 * g + i];
          }
        }
      }
      const LaneScales scales = Format::scales(at.tile, at.part, lanes, scale);
      for (int t = 0; t < kTokens; ++t) {
        F32& total = totals.of[t][lanes];
        total += (even[t] + odd[t]) * scales.d;
        if constexpr (kHasM<Format>) total += scales.m * x[t].sums[kScales * b + scale];
      }
    }
  }
}

template <typename Format, int kTokens>
inline void add_part_of_bytes(const TilePart& at, const DigitsX<kTokens>& x,
                              TileSums<kTokens>& totals) {
  I32 words[kVectors][8];
  for (int lanes = 0; lanes < kVectors; ++lanes) {
    Format::levels(at.tile, at.part, lanes, words[lanes]);
  }
  for (int scale = 0; scale < Format::kScales; ++scale) {
    F32 dots[kTokens][kVectors];
    digit_dots<Format>(words, scale, x, dots);
    for (int lanes = 0; lanes < kVectors; ++lanes) {
      const LaneScales scales = Format::scales(at.tile, at.part, lanes, scale);
      for (int t = 0; t < kTokens; ++t) {
        totals.of[t][lanes] += dots[t][lanes] * (scales.d * x.steps[t]);
        if constexpr (Format::kHasMinimum) {
          totals.of[t][lanes] += scales.m * x.template sum<Format::kScales>(t, scale);
        }
      }
    }
  }
}

template <typename Format, int kTokens>
inline void add_part_of_nibbles(const TilePart& at, const DigitsX<kTokens>& x,
                                TileSums<kTokens>& totals) {
  F32 dots[kTokens][kVectors];
  digit_dots(Format::groups(at.tile, at.part), x, dots);
  for (int lanes = 0; lanes < kVectors; ++lanes) {
    const LaneScales scales = Format::scales(at.tile, at.part, lanes, 0);
    for (int t = 0; t < kTokens; ++t) {
      totals.of[t][lanes] += dots[t][lanes] * (scales.d * x.steps[t]);
      totals.of[t][lanes] += scales.m * x.sums[t];
    }
  }
}

// Whether results are so many that they push weights out of the caches: logits of several tokens.
inline bool streams(const Tensor& y, int64_t tokens) {
  return tokens > 1 && y.n_cols >= kStreamedColumns && y.n_cols % kTileRows == 0 &&
         reinterpret_cast<uintptr_t>(row<float>(y, 0)) % (kTileRows * sizeof(float)) == 0;
}

template <int kTokens>
inline void store_tile_sums(const TileSums<kTokens>& totals, const Tensor& y, int64_t token,
                            int64_t tokens, int64_t first, int64_t count, bool streamed) {
  for (int t = 0; t < tokens; ++t) {
    if (streamed) {
      float* to = row<float>(y, token + t) + first;
      for (int i = 0; i < kVectors; ++i) stream(to + i * kWidth, totals.of[t][i]);
      continue;
    }
    float lanes[kTileRows];
    for (int i = 0; i < kVectors; ++i) store(lanes + i * kWidth, totals.of[t][i]);
    std::memcpy(row<float>(y, token + t) + first, lanes, count * sizeof(float));
  }
}

// Calls add(part of a tile, block of x, totals) for the first `columns` of a row of tiles and
// stores the sums of the first `tokens` tokens.
template <typename Format, int kTokens, typename Add>
inline void over_tiles(const Tensor& weight, int64_t columns, const Tensor& y, int64_t token,
                       Range rows, const Add& add, int64_t tokens = kTokens) {
  constexpr int kPartBytes = Format::kTileBytes / Format::kParts;
  const int64_t blocks = columns / kTileColumns;
  const bool streamed = streams(y, tokens);
  for (int64_t first = rows.begin; first < rows.end; first += kTileRows) {
    const uint8_t* tile = tile_row(weight, first);
    TileSums<kTokens> totals = {};
    for (int64_t b = 0; b < blocks; b += Format::kParts, tile += Format::kTileBytes) {
      for (int part = 0; part < Format::kParts; ++part) {
        ask_ahead(tile + part * kPartBytes, kPartBytes);
        add({tile, part}, b + part, totals);
      }
    }
    const int64_t left = rows.end - first;
    const int64_t count = left < kTileRows ? left : kTileRows;
    store_tile_sums(totals, y, token, tokens, first, count, streamed && count == kTileRows);
  }
  if (streamed) after_streaming();
}

// Of the group's tokens `count` are there; the last of them stands for others.
template <typename Format, int kTokens>
inline void tiles_times_a8(const Tensor& x, const KeptA8& kept, const Tensor& weight,
                           const Tensor& y, int64_t token, int64_t count, Range rows) {
  const HalfOffsets halves = kept.halves<Format>();
  const int32_t* pairs = kept.pairs<Format, 1>();
  TileX values[kTokens];
  for (int t = 0; t < kTokens; ++t) {
    const int64_t index = token + (t < count ? t : count - 1);
    values[t] = {a8_row(x, index), halves, index,
                 pairs == nullptr ? nullptr : pairs + index * (x.n_cols / 2)};
  }
  const auto add = [&](const TilePart& at, int64_t b, TileSums<kTokens>& totals) {
    add_part_a8<Format, kTokens>(at, b, values, totals);
  };
  over_tiles<Format, kTokens>(weight, x.n_cols, y, token, rows, add, count);
}

// sums: [n / 32][kScales]
template <int kScales>
inline void sum_blocks(const float* x, int64_t n, float* sums) {
  constexpr int kColumns = kTileColumns / kScales;
  for (int64_t i = 0; i < n / kColumns; ++i) {
    F32 total = {};
    for (int j = 0; j < kColumns; j += kWidth) total += load(x + i * kColumns + j);
    sums[i] = sum(total);
  }
}

// Likewise. digits: [K / 32], of the group; stale: they have to be made
template <typename Format, int kTokens>
inline void tiles_times_digits(const Tensor& x, const Tensor& weight, const Tensor& y,
                               int64_t token, int64_t count, Range rows, bool stale,
                               DigitsX<kTokens>* digits) {
  if (stale) {
    const float* values[kTokens];
    for (int t = 0; t < kTokens; ++t) {
      values[t] = row<const float>(x, token + (t < count ? t : count - 1));
    }
    split_tokens(values, x.n_cols, digits);
  }
  const auto add = [&](const TilePart& at, int64_t b, TileSums<kTokens>& totals) {
    if constexpr (Format::kLevels == Levels::kNibbles) {
      add_part_of_nibbles<Format, kTokens>(at, digits[b], totals);
    } else {
      add_part_of_bytes<Format, kTokens>(at, digits[b], totals);
    }
  };
  over_tiles<Format, kTokens>(weight, x.n_cols, y, token, rows, add, count);
}

// scratch: float [K / 32][scales] a token
template <typename Format, int kTokens>
inline void tiles_times_a32(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t token,
                            Range rows, float* scratch) {
  constexpr int kScales = Format::kScales;
  FloatX values[kTokens];
  for (int t = 0; t < kTokens; ++t) {
    values[t] = {row<const float>(x, token + t), scratch + t * kScales * (x.n_cols / 32)};
    if constexpr (kHasM<Format>) sum_blocks<kScales>(values[t].values, x.n_cols, values[t].sums);
  }
  over_tiles<Format, kTokens>(weight, x.n_cols, y, token, rows,
                              [&](const TilePart& at, int64_t b, TileSums<kTokens>& totals) {
                                add_part_a32<Format, kTokens>(at, b, values, totals);
                              });
}

// Calls pass(rows) for some rows after the other where several groups of tokens meet them, so that
// weights come from the cache for all groups but the first.
template <typename Pass>
inline void in_passes(Range rows, bool several, const Pass& pass) {
  const int64_t size = several ? kPassRows : rows.end - rows.begin;
  for (int64_t first = rows.begin; first < rows.end; first += size) {
    pass(Range{first, std::min(first + size, rows.end)});
  }
}

// With the bits that matmul_a8_by_panels gives
template <typename Format>
inline void matmul_a8_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& y,
                               int64_t tokens, Range rows, const Task& task) {
  const KeptA8 kept(x, tokens, task);
  in_passes(rows, tokens > kTileTokensA8, [&](Range some) {
    in_padded_groups<kTileTokensA8>(tokens, [&](int64_t token, auto size, int64_t count) {
      tiles_times_a8<Format, size()>(x, kept, weight, y, token, count, some);
    });
  });
}

template <typename Format>
inline void matmul_a32_by_tiles(const Tensor& x, const Tensor& weight, const Tensor& y,
                                int64_t tokens, Range rows, float* scratch) {
  in_groups<kTileTokens>(tokens, [&](int64_t token, auto count) {
    tiles_times_a32<Format, count()>(x, weight, y, token, rows, scratch);
  });
}

// What a worker keeps from one task to the next: digits, until Task::kept changes; of more tokens
// than there is room for, those of a group, which every task makes.
struct DigitScratch {
  static constexpr int64_t kMost = 1 << 20;  // bytes
  uint64_t& kept;
  uint8_t* digits;
  int64_t room;  // bytes of all digits that are kept

  static int64_t group_bytes(const Tensor& x) {
    return sizeof(DigitsX<kDigitTokens>) * (x.n_cols / kDigitBlock);
  }
  static int64_t bytes(const Tensor& x) {
    const int64_t groups = (x.n_rows + kDigitTokens - 1) / kDigitTokens;
    const int64_t all = groups * group_bytes(x);
    return kCacheLine + (all < kMost ? all : std::max(kMost, group_bytes(x)));
  }
  DigitScratch(const Tensor& x, uint8_t* scratch)
      : kept(*reinterpret_cast<uint64_t*>(scratch)),
        digits(scratch + kCacheLine),
        room(bytes(x) - kCacheLine) {}
};

template <typename Format>
inline void matmul_by_digits(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t tokens,
                             Range rows, DigitScratch scratch, uint64_t kept) {
  const int64_t groups = (tokens + kDigitTokens - 1) / kDigitTokens;
  const bool fits = groups * DigitScratch::group_bytes(x) <= scratch.room;
  bool stale = !fits || scratch.kept != kept;
  scratch.kept = fits ? kept : 0;
  in_passes(rows, fits && groups > 1, [&](Range some) {
    uint8_t* digits = scratch.digits;
    in_padded_groups<kDigitTokens>(tokens, [&](int64_t token, auto size, int64_t count) {
      auto* of_group = reinterpret_cast<DigitsX<size()>*>(digits);
      tiles_times_digits<Format, size()>(x, weight, y, token, count, some, stale, of_group);
      if (fits) digits += DigitScratch::group_bytes(x);
    });
    stale = !fits;
  });
}

}  // namespace LLM_ISA
}  // namespace llm
