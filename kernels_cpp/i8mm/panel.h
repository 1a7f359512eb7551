// Products of many tokens in int8 by SMMLA, which adds the products of two rows and two tokens, 8
// columns each, to four sums (Arm Architecture Reference Manual, FEAT_I8MM). A panel is the one of
// ops/panel_a8.h with words in another order; tokens are packed once for all panels. Sums are the
// same integers as by dot products and meet their scales in the same order: the same bits.
#pragma once

#include "ops/panel_a8.h"

namespace llm {
namespace LLM_ISA {

#if !defined(__ARM_FEATURE_MATMUL_INT8)
#error "compile with -march=armv8.2-a+dotprod+i8mm"
#endif
static_assert(kWidth == 4 && kHasByteDot);

constexpr int kPairColumns = 8;                 // of two rows, or of two tokens, in a register
constexpr int kBlockPairs = 32 / kPairColumns;  // registers that a pair of rows or tokens takes

// sums [2 rows][2 tokens] += rows [2][8] . tokens [2][8]
inline I32 add_pairs(I32 sums, I32 rows, I32 tokens) {
  return (I32)vmmlaq_s32((int32x4_t)sums, (int8x16_t)rows, (int8x16_t)tokens);
}
inline I32 first_of_pairs(I32 a, I32 b) { return (I32)vuzp1q_s32((int32x4_t)a, (int32x4_t)b); }
inline I32 second_of_pairs(I32 a, I32 b) { return (I32)vuzp2q_s32((int32x4_t)a, (int32x4_t)b); }

// Words of four rows, columns 4g..4g+3 each -> columns 8i..8i+7 of rows 0 and 1, then of 2 and 3
template <typename Format>
inline void pair_rows(PanelBlock<Format>* panel, int64_t blocks) {
  for (int64_t b = 0; b < blocks; ++b) {
    I32* levels = panel[b].levels;
    for (int i = 0; i < 2 * kBlockPairs; i += 2) {
      const auto even = (int32x4_t)levels[i], odd = (int32x4_t)levels[i + 1];
      levels[i] = (I32)vzip1q_s32(even, odd);
      levels[i + 1] = (I32)vzip2q_s32(even, odd);
    }
  }
}

// Tokens in groups of kPanelTokensA8 or fewer: int8 [K / 8][pairs of the group][2][8], from the
// group's first token * K on. A token without another beside it has zeros there.
inline void pack_tokens(const Tensor& x, int64_t tokens, int8_t* packed) {
  const int64_t n = x.n_cols;
  in_groups<kPanelTokensA8>(tokens, [&](int64_t token, auto group) {
    int8_t* to = packed + token * n;
    for (int64_t k = 0; k < n; k += kPairColumns) {
      for (int t = 0; t < group(); ++t, to += kPairColumns) {
        std::memcpy(to, row<const int8_t>(x, token + t) + k, kPairColumns);
      }
      if (group() % 2) {
        std::memset(to, 0, kPairColumns);
        to += kPairColumns;
      }
    }
  });
}

// As panel_times_a8; packed: of the group
template <typename Format, int kTokens>
inline void panel_times_pairs(const PanelBlock<Format>* block, int64_t n,
                              const GroupX<Format::kLevels, kTokens>& x, const int8_t* packed,
                              F32 (&totals)[kTokens][kPanelParts]) {
  constexpr int kScales = Format::kScales, kSteps = kBlockPairs / kScales;
  constexpr int kTokenPairs = (kTokens + 1) / 2;
  for (int64_t b = 0; b < n / 32; ++b, block += kPanelParts) {
    for (int scale = 0; scale < kScales; ++scale) {
      I32 sums[kTokenPairs][kPanelParts][2] = {};
      for (int i = kSteps * scale; i < kSteps * (scale + 1); ++i) {
        I32 tokens[kTokenPairs];
        for (I32& two : tokens) {
          std::memcpy(&two, packed, sizeof two);
          packed += sizeof two;
        }
        for (int p = 0; p < kPanelParts; ++p) {
          for (int pair = 0; pair < 2; ++pair) {
            for (int t = 0; t < kTokenPairs; ++t) {
              I32& sum = sums[t][p][pair];
              sum = add_pairs(sum, block[p].levels[2 * i + pair], tokens[t]);
            }
          }
        }
      }
      I32 of_rows[kTokens][kPanelParts];
      for (int t = 0; t < kTokens; ++t) {
        for (int p = 0; p < kPanelParts; ++p) {
          const I32(&both)[2] = sums[t / 2][p];
          of_rows[t][p] =
              t % 2 ? second_of_pairs(both[0], both[1]) : first_of_pairs(both[0], both[1]);
        }
      }
      add_scaled_sums<Format, kTokens>(block, n, b, scale, x, of_rows, totals);
    }
  }
}

// What a worker keeps behind KeptA8 from one task to the next: packed tokens, until
// Task::kept changes, and a panel.
struct PairScratch {
  uint64_t& kept;
  int8_t* packed;
  uint8_t* panel;

  static size_t packed_bytes(const Tensor& x) { return (x.n_rows + 1) / 2 * 2 * x.n_cols; }
  static size_t bytes(const Tensor& x) {
    return kCacheLine + packed_bytes(x) + panel_bytes(x.n_cols);
  }
  PairScratch(const Tensor& x, uint8_t* scratch)
      : kept(*reinterpret_cast<uint64_t*>(scratch)),
        packed(reinterpret_cast<int8_t*>(scratch + kCacheLine)),
        panel(scratch + kCacheLine + packed_bytes(x)) {}
};

// As matmul_a8_by_panels.
template <typename Format>
inline void matmul_a8_by_pairs(const Tensor& x, const Tensor& weight, const Tensor& y,
                               int64_t tokens, Range rows, const Task& task) {
  const int64_t n = x.n_cols;
  const KeptA8 kept(x, tokens, task);
  PairScratch scratch(x, task.scratch + KeptA8::bytes(x));
  if (scratch.kept != task.kept) {
    pack_tokens(x, tokens, scratch.packed);
    scratch.kept = task.kept;
  }
  auto* panel = reinterpret_cast<PanelBlock<Format>*>(scratch.panel);
  const PanelX values = {row<const uint8_t>(x, 0), row_bytes(x), nullptr, kept.halves<Format>()};
  const int64_t groups = (tokens + kPanelTokensA8 - 1) / kPanelTokensA8;
  const int64_t bytes = kPanelRowsA8 * row_bytes(weight.dtype, n);
  for (int64_t first = rows.begin; first < rows.end; first += kPanelRowsA8) {
    const int64_t left = rows.end - first, count = left < kPanelRowsA8 ? left : kPanelRowsA8;
    fill_panel_a8<Format>(weight, n, first, count, panel);
    pair_rows(panel, n / 32 * kPanelParts);
    Ahead next(tile_row(weight, first + kPanelRowsA8), 1, bytes, 0, groups);
    in_groups<kPanelTokensA8>(tokens, [&](int64_t token, auto group) {
      next.ask();
      const GroupX<Format::kLevels, group()> of_group(values, token, n);
      F32 totals[group()][kPanelParts] = {};
      panel_times_pairs<Format, group()>(panel, n, of_group, scratch.packed + token * n, totals);
      for (int t = 0; t < group(); ++t) {
        std::memcpy(row<float>(y, token + t) + first, totals[t], count * sizeof(float));
      }
    });
  }
}

}  // namespace LLM_ISA
}  // namespace llm
