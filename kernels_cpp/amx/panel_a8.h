// Products of many tokens in int8 by tile registers. A panel is the one of ops/panel_a8.h: the
// levels of a block, a word of four columns for each of 16 rows, are a register as they lie there;
// so are 32 columns of up to 16 rows of activations. Products of some blocks go to memory in the
// first cache, then a few tokens at a time meet their scales: the same integers, the same bits.
#pragma once

#include "amx/registers.h"
#include "ops/panel_a8.h"

namespace llm {
namespace LLM_ISA {

static_assert(kWidth == 16 && kPanelParts == 2 && kHasByteDot, "a register of 16 rows of weights");

constexpr int kAmxTokens = kTileRegisterRows;  // at most, that share a pass over the panel
constexpr int kAmxBlocks = 8;                  // whose products wait for their scales
constexpr int kScaledTokens = 8;               // at a time; two sums each

// int32 [kAmxBlocks][kMaxScales][kPanelParts][kAmxTokens][kWidth], of which formats with one scale
// use half; then float32 sums [kAmxTokens][kPanelRowsA8]
constexpr size_t kAmxProducts = kAmxBlocks * kMaxScales * kPanelParts * kAmxTokens * kWidth;
constexpr size_t kAmxSums = kAmxTokens * kPanelRowsA8;
constexpr size_t kAmxBytes = sizeof(int32_t) * kAmxProducts + sizeof(float) * kAmxSums;

// Registers: sums of even blocks in 0 and 1 and of odd ones in 2 and 3, a part each; activations in
// 4 and 5; levels in 6 and 7. kColumns: that share a scale
template <int kColumns>
inline void configure_for(int tokens) {
  TileConfig config;
  for (int tile = 0; tile < 4; ++tile) config.set(tile, tokens, kTileRegisterBytes);
  for (int tile = 4; tile < 6; ++tile) config.set(tile, tokens, kColumns);
  for (int tile = 6; tile < 8; ++tile) config.set(tile, kColumns / 4, kTileRegisterBytes);
  configure_tiles(config);
}

// kOdd: which registers; levels: of both parts, kPartBytes apart; to: [kPanelParts][tokens][kWidth]
template <int kOdd, size_t kPartBytes>
inline void tile_product(const uint8_t* x, int64_t stride, const I32* levels, int32_t* to) {
  constexpr int kFirst = 2 * kOdd, kSecond = kFirst + 1, kX = 4 + kOdd;
  constexpr int64_t kRow = kTileRegisterBytes;
  const auto* second = reinterpret_cast<const uint8_t*>(levels) + kPartBytes;
  zero_tile<kFirst>();
  zero_tile<kSecond>();
  load_tile<kX>(x, stride);
  load_tile<6>(levels, kRow);
  load_tile<7>(second, kRow);
  dot_int8<kFirst, kX, 6>();
  dot_int8<kSecond, kX, 7>();
  store_tile<kFirst>(to, kRow);
  store_tile<kSecond>(to + kAmxTokens * kWidth, kRow);
}

// Of `blocks` blocks of a panel and the tokens that registers are configured for; x: of the first
template <typename Format>
inline void tile_products(const PanelBlock<Format>* panel, int64_t blocks, const uint8_t* x,
                          int64_t stride, int32_t* to) {
  constexpr int kScales = Format::kScales, kColumns = 32 / kScales;
  constexpr int kStep = kPanelParts * kAmxTokens * kWidth;
  for (int64_t i = 0; i < blocks * kScales; i += 2) {
    const auto product = [&](auto odd) {
      constexpr int kOdd = decltype(odd)::value;
      const int64_t at = i + kOdd;
      const PanelBlock<Format>& block = panel[at / kScales * kPanelParts];
      const I32* levels = block.levels + kColumns / 4 * (at % kScales);
      tile_product<kOdd, sizeof block>(x + kColumns * at, stride, levels, to + kStep * at);
    };
    product(std::integral_constant<int, 0>());
    if (i + 1 < blocks * kScales) product(std::integral_constant<int, 1>());
  }
}

// Blocks from..from + blocks - 1 of a panel
struct BlockRange {
  int64_t from, blocks;
};

// totals [kTokens][kPanelRowsA8] += products of some blocks times their scales, as panel_times_a8
// adds them; products: of the group's first token
template <typename Format, int kTokens>
inline void add_scaled(const PanelBlock<Format>* panel, int64_t n, BlockRange range,
                       const GroupX<Format::kLevels, kTokens>& x, const int32_t* products,
                       float* totals) {
  constexpr int kScales = Format::kScales, kPartStep = kAmxTokens * kWidth;
  F32 sums[kTokens][kPanelParts];
  std::memcpy(sums, totals, sizeof sums);
  for (int64_t b = range.from; b < range.from + range.blocks; ++b, panel += kPanelParts) {
    const int64_t at = kept_apart(n + 8 * b), offset_at = kept_apart(n + n / 4 + 4 * b);
    for (int scale = 0; scale < kScales; ++scale, products += kPanelParts * kPartStep) {
      for (int t = 0; t < kTokens; ++t) {
        const auto of_block = x.template of_block<A8Scale>(t, at);
        const A8Offset offset =
            kScales == 1 ? x.template of_block<A8Offset>(t, offset_at) : x.half(b, t, scale);
        for (int p = 0; p < kPanelParts; ++p) {
          I32 product = load(products + p * kPartStep + t * kWidth);
          product = add_offset(product, panel[p].pairs[scale], offset);
          sums[t][p] += to_f32(product) * (panel[p].scales[scale].d * of_block.scale);
        }
        if constexpr (kMinima<Format>) {
          const float sum = sum_of<kScales>(of_block, offset);
          for (int p = 0; p < kPanelParts; ++p) sums[t][p] += panel[p].scales[scale].m * sum;
        }
      }
    }
  }
  std::memcpy(totals, sums, sizeof sums);
}

// What a worker needs beside a panel.
struct AmxScratch {
  int32_t* products;
  float* totals;

  explicit AmxScratch(uint8_t* scratch)
      : products(reinterpret_cast<int32_t*>(scratch)),
        totals(reinterpret_cast<float*>(products + kAmxProducts)) {}
};

// y[token..token + tokens - 1][first..first + count - 1] of a panel whose rows begin at `first`
template <typename Format>
inline void panel_by_amx(const PanelBlock<Format>* panel, int64_t n, const PanelX& x, int64_t token,
                         int64_t tokens, const Tensor& y, Range rows, const AmxScratch& scratch) {
  const int64_t blocks = n / 32;
  std::memset(scratch.totals, 0, sizeof(float) * kAmxSums);
  for (int64_t from = 0; from < blocks; from += kAmxBlocks) {
    const BlockRange range = {from, blocks - from < kAmxBlocks ? blocks - from : kAmxBlocks};
    const PanelBlock<Format>* some = panel + from * kPanelParts;
    tile_products<Format>(some, range.blocks, x.rows + token * x.stride + 32 * from, x.stride,
                          scratch.products);
    in_groups<kScaledTokens>(tokens, [&](int64_t t, auto group) {
      const GroupX<Format::kLevels, group()> of_group(x, token + t, n);
      add_scaled<Format, group()>(some, n, range, of_group, scratch.products + t * kWidth,
                                  scratch.totals + t * kPanelRowsA8);
    });
  }
  for (int64_t t = 0; t < tokens; ++t) {
    std::memcpy(row<float>(y, token + t) + rows.begin, scratch.totals + t * kPanelRowsA8,
                (rows.end - rows.begin) * sizeof(float));
  }
}

// As matmul_a8_by_panels; behind the panel, scratch has kAmxBytes.
template <typename Format>
inline void matmul_a8_by_amx(const Tensor& x, const Tensor& weight, const Tensor& y, int64_t tokens,
                             Range rows, const Task& task) {
  constexpr int kColumns = 32 / Format::kScales;
  const int64_t n = x.n_cols;
  const KeptA8 kept(x, tokens, task);
  uint8_t* const own = task.scratch + KeptA8::bytes(x);
  const AmxScratch scratch(own + panel_bytes(n));
  auto* panel = reinterpret_cast<PanelBlock<Format>*>(own);
  const PanelX values = {row<const uint8_t>(x, 0), row_bytes(x), nullptr, kept.halves<Format>()};
  const int64_t groups = (tokens + kAmxTokens - 1) / kAmxTokens;
  const int64_t bytes = kPanelRowsA8 * row_bytes(weight.dtype, n);
  for (int64_t first = rows.begin; first < rows.end; first += kPanelRowsA8) {
    const int64_t left = rows.end - first, count = left < kPanelRowsA8 ? left : kPanelRowsA8;
    fill_panel_a8<Format>(weight, n, first, count, panel);
    Ahead next(tile_row(weight, first + kPanelRowsA8), 1, bytes, 0, groups);
    for (int64_t token = 0; token < tokens; token += kAmxTokens) {
      const int64_t some = tokens - token < kAmxTokens ? tokens - token : kAmxTokens;
      if (token == 0 || some < kAmxTokens) configure_for<kColumns>(static_cast<int>(some));
      next.ask();
      panel_by_amx<Format>(panel, n, values, token, some, y, {first, first + count}, scratch);
    }
  }
  release_tiles();
}

}  // namespace LLM_ISA
}  // namespace llm
