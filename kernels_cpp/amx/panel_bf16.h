// Products of many tokens in float32 by tile registers, with weights that are floats: both as BF16
// digits (amx/bf16_digits.h). A panel is kBf16Rows rows of weights, of which two neighbouring
// columns are a word and rows are lanes, as TDPBF16PS takes them; it meets all tokens. In memory
// the rows of a register follow each other, so that its loads fall on different sets of the caches.
#pragma once

#include "amx/bf16_digits.h"
#include "amx/registers.h"
#include "base/aligned.h"
#include "ops/panel_a32.h"

namespace llm {
namespace LLM_ISA {

static_assert(kWidth == 16, "a register of 16 rows of weights");

constexpr int kBf16Vectors = 2;  // registers of rows of weights
constexpr int kBf16Rows = kBf16Vectors * kWidth;
constexpr int kRegisterBytes = kTileRegisterRows * kTileRegisterBytes;
constexpr int kBf16Tokens = kTileRegisterRows;  // of a register
constexpr int kMostGroups = 2;                  // registers of tokens that share a pass
// Of kBf16Columns columns, at a time: the digits of 128 tokens, 384 KiB, stay in the second cache
// while panels pass.
constexpr int64_t kPieceSteps = 16;
// Of the digits of a register of tokens
constexpr int64_t kTokenBytes = kPieceSteps * kFloatDigits * kRegisterBytes;

constexpr int64_t kPieceColumns = kPieceSteps * kBf16Columns;

inline int64_t pieces(int64_t columns) { return (columns + kPieceColumns - 1) / kPieceColumns; }

// A piece of the columns, and where its digits of activations are.
struct Piece {
  int64_t from, columns;
  uint8_t* x;
  int64_t steps() const { return (columns + kBf16Columns - 1) / kBf16Columns; }
};

// What a worker needs.
struct Bf16Scratch {
  // All digits of 128 tokens of 16,384 columns; of more, a piece, which every task makes.
  static constexpr int64_t kMostKept = 12 << 20;
  static constexpr size_t kPanelBytes = kPieceSteps * kFloatDigits * kBf16Vectors * kRegisterBytes;
  static constexpr size_t kSumBytes = sizeof(float) * kMostGroups * kBf16Tokens * kBf16Rows;

  uint64_t& kept;        // Task::kept of the digits that are there
  uint8_t* x;            // [pieces, or 1][registers of tokens][kPieceSteps][kFloatDigits] registers
  U16* largest_x;        // of each token, of its first and last digits, their bits; in any lane
  uint8_t* panel;        // [kPieceSteps][digits][kBf16Vectors] registers
  float* sums;           // of a panel of fewer rows: [kMostGroups * kBf16Tokens][kBf16Rows]
  float* floats;         // for matmul_a32_by_panels
  U16* largest_weights;  // as largest_x, of kWidth rows, two lanes for each

  static int64_t piece_bytes(const Tensor& x) {
    return (x.n_rows + kBf16Tokens - 1) / kBf16Tokens * kTokenBytes;
  }
  static bool keeps(const Tensor& x) { return piece_bytes(x) * pieces(x.n_cols) <= kMostKept; }
  static size_t x_bytes(const Tensor& x) {
    return piece_bytes(x) * (keeps(x) ? pieces(x.n_cols) : 1);
  }
  static size_t bytes(const Tensor& x, int64_t rows) {
    return kCacheLine + x_bytes(x) + sizeof(U16) * x.n_rows + kPanelBytes + kSumBytes +
           kPanelBytesA32 + sizeof(U16) * kBf16Vectors * ((rows + kBf16Rows - 1) / kBf16Rows);
  }
  Bf16Scratch(const Tensor& tokens, uint8_t* scratch)
      : kept(*reinterpret_cast<uint64_t*>(scratch)),
        x(scratch + kCacheLine),
        largest_x(reinterpret_cast<U16*>(x + x_bytes(tokens))),
        panel(reinterpret_cast<uint8_t*>(largest_x + tokens.n_rows)),
        sums(reinterpret_cast<float*>(panel + kPanelBytes)),
        floats(sums + kSumBytes / sizeof(float)),
        largest_weights(reinterpret_cast<U16*>(floats + kPanelBytesA32 / sizeof(float))) {}
};

// A piece of all tokens as digits.
inline void split_tokens_bf16(const Tensor& x, int64_t tokens, const Piece& piece, U16* largest_x) {
  for (int64_t token = 0; token < tokens; ++token) {
    const float* values = row<const float>(x, token) + piece.from;
    uint8_t* to =
        piece.x + token / kBf16Tokens * kTokenBytes + token % kBf16Tokens * kTileRegisterBytes;
    U16 largest = {};
    for (int64_t k = 0; k < piece.columns; k += kBf16Columns) {
      F32 words[kFloatDigits];
      split_row_bf16(values + k, piece.columns - k, words);
      for (const F32& word : words) {
        std::memcpy(to, &word, sizeof word);
        to += kRegisterBytes;
      }
      largest = larger(largest, larger(magnitudes(words[0]), magnitudes(words[kFloatDigits - 1])));
    }
    U16& all = largest_x[token];
    all = piece.from == 0 ? largest : larger(all, largest);
  }
}

// Lanes are rows of `stride` values: lanes[k] has column k, or two columns of BF16, which are words
// already.
template <typename Value>
inline void load_lanes(const Value* rows, int64_t stride, F32 (&lanes)[kWidth]) {
  for (int r = 0; r < kWidth; ++r, rows += stride) {
    if constexpr (kDigitsOf<Value> == 1) {
      std::memcpy(&lanes[r], rows, sizeof lanes[r]);
    } else {
      lanes[r] = load(rows);
    }
  }
  transpose(lanes);
}

// kBf16Columns of kWidth rows, each digit as a register, these kBf16Vectors apart; returns the
// largest digits.
template <typename Value>
inline U16 fill_step_bf16(const Value* rows, int64_t stride, uint8_t* to) {
  constexpr int kDigits = kDigitsOf<Value>;
  constexpr int kPair = kDigits == 1 ? 1 : 2;     // lanes that are a word
  constexpr int kColumns = kBf16Columns / kPair;  // of all lanes
  U16 largest = {};
  for (int k = 0; k < kBf16Columns; k += kColumns) {
    F32 lanes[kWidth];
    load_lanes(rows + k, stride, lanes);
    for (int i = 0; i < kWidth; i += kPair, to += kTileRegisterBytes) {
      F32 words[kDigits] = {lanes[i]};
      if constexpr (kDigits > 1) split_bf16(lanes[i], lanes[i + 1], words);
      for (int j = 0; j < kDigits; ++j) {
        std::memcpy(to + j * kBf16Vectors * kRegisterBytes, &words[j], sizeof words[j]);
      }
      largest = larger(largest, larger(magnitudes(words[0]), magnitudes(words[kDigits - 1])));
    }
  }
  return largest;
}

// A piece of `count` rows, at most kWidth, and zeros for those that are missing.
template <typename Value>
inline U16 fill_rows_bf16(const Tensor& weight, int64_t first, int64_t count, const Piece& piece,
                          uint8_t* to) {
  constexpr int kStepBytes = kDigitsOf<Value> * kBf16Vectors * kRegisterBytes;
  const Value* rows = row<const Value>(weight, first) + piece.from;
  U16 largest = {};
  for (int64_t k = 0; k < piece.columns; k += kBf16Columns, to += kStepBytes) {
    const int64_t left = piece.columns - k, n = left < kBf16Columns ? left : kBf16Columns;
    const bool whole = count == kWidth && n == kBf16Columns;
    Value part[kWidth * kBf16Columns];
    if (!whole) {
      std::memset(part, 0, sizeof part);
      for (int64_t r = 0; r < count; ++r) {
        std::memcpy(part + r * kBf16Columns, rows + r * weight.n_cols + k, n * sizeof(Value));
      }
    }
    const int64_t stride = whole ? weight.n_cols : kBf16Columns;
    largest = larger(largest, fill_step_bf16<Value>(whole ? rows + k : part, stride, to));
  }
  return largest;
}

// A piece of `count` rows as a panel, zeros for those that are missing.
template <typename Value>
inline void fill_panel_bf16(const Tensor& weight, int64_t first, int64_t count, const Piece& piece,
                            uint8_t* panel, U16* largest) {
  for (int v = 0; v < kBf16Vectors; ++v, panel += kRegisterBytes, first += kWidth) {
    const int64_t left = count - v * kWidth < 0 ? 0 : count - v * kWidth;
    const U16 own =
        fill_rows_bf16<Value>(weight, first, left < kWidth ? left : kWidth, piece, panel);
    largest[v] = piece.from == 0 ? own : larger(largest[v], own);
  }
}

// Registers: sums of the first and the second group of tokens by both vectors of rows in 0 to 3,
// digits of activations in 4 and 5, of weights in 6 and 7. tokens: of both groups
inline void configure_for_bf16(int tokens) {
  TileConfig config;
  for (int tile = 6; tile < 8; ++tile) config.set(tile, kTileRegisterRows, kTileRegisterBytes);
  for (int group = 0; group < kMostGroups && tokens > 0; ++group, tokens -= kBf16Tokens) {
    const int rows = tokens < kBf16Tokens ? tokens : kBf16Tokens;
    config.set(2 * group, rows, kTileRegisterBytes);
    config.set(2 * group + 1, rows, kTileRegisterBytes);
    config.set(4 + group, rows, kTileRegisterBytes);
  }
  configure_tiles(config);
}

// sums: of the first token and row
template <int kGroup>
inline void load_sums(const FloatRows& sums, bool first) {
  if (first) {
    zero_tile<2 * kGroup>();
    zero_tile<2 * kGroup + 1>();
    return;
  }
  constexpr int64_t kToken = kGroup * kBf16Tokens, kBytes = sizeof(float);
  load_tile<2 * kGroup>(sums.at(kToken, 0), kBytes * sums.stride);
  load_tile<2 * kGroup + 1>(sums.at(kToken, kWidth), kBytes * sums.stride);
}

template <int kGroup>
inline void store_sums(const FloatRows& sums) {
  constexpr int64_t kToken = kGroup * kBf16Tokens, kBytes = sizeof(float);
  store_tile<2 * kGroup>(sums.at(kToken, 0), kBytes * sums.stride);
  store_tile<2 * kGroup + 1>(sums.at(kToken, kWidth), kBytes * sums.stride);
}

template <int kGroup>
inline void add_digit_products(const uint8_t* x) {
  load_tile<4 + kGroup>(x, kTileRegisterBytes);
  dot_bf16<2 * kGroup, 4 + kGroup, 6>();
  dot_bf16<2 * kGroup + 1, 4 + kGroup, 7>();
}

// sums (+)= panel . x of kGroups groups of tokens; the products of a token in one order, whatever
// tokens are beside it
template <int kDigits, int kGroups>
inline void panel_times_bf16(const uint8_t* panel, const uint8_t* x, int64_t steps,
                             const FloatRows& sums, bool first, Ahead& next) {
  load_sums<0>(sums, first);
  if constexpr (kGroups > 1) load_sums<1>(sums, first);
  for (int64_t step = 0; step < steps; ++step, x += kFloatDigits * kRegisterBytes) {
    next.ask();
    for (int j = 0; j < kDigits; ++j, panel += kBf16Vectors * kRegisterBytes) {
      load_tile<6>(panel, kTileRegisterBytes);
      load_tile<7>(panel + kRegisterBytes, kTileRegisterBytes);
      for (int i = 0; i < kFloatDigits && i + j <= kLastProduct; ++i) {
        add_digit_products<0>(x + i * kRegisterBytes);
        if constexpr (kGroups > 1) add_digit_products<1>(x + kTokenBytes + i * kRegisterBytes);
      }
    }
  }
  store_sums<0>(sums);
  if constexpr (kGroups > 1) store_sums<1>(sums);
}

// y[token..token + tokens - 1][first..first + count - 1] (+)= panel . x of one piece; registers are
// configured for the tokens
template <int kDigits>
inline void panel_bf16_to(const Tensor& y, int64_t token, int64_t tokens, int64_t first,
                          int64_t count, const Piece& piece, const Bf16Scratch& scratch,
                          Ahead& next) {
  const uint8_t* x = piece.x + token / kBf16Tokens * kTokenBytes;
  const bool begins = piece.from == 0, whole = count == kBf16Rows;
  const FloatRows in_y = {row<float>(y, token) + first, y.n_cols};
  const FloatRows apart = {scratch.sums, kBf16Rows};
  const size_t bytes = count * sizeof(float);
  for (int64_t t = 0; t < tokens && !whole && !begins; ++t) {
    std::memcpy(apart.at(t, 0), in_y.at(t, 0), bytes);
  }
  const auto times =
      tokens > kBf16Tokens ? panel_times_bf16<kDigits, 2> : panel_times_bf16<kDigits, 1>;
  times(scratch.panel, x, piece.steps(), whole ? in_y : apart, begins, next);
  for (int64_t t = 0; t < tokens && !whole; ++t) {
    std::memcpy(in_y.at(t, 0), apart.at(t, 0), bytes);
  }
}

// All panels of some rows by a piece of the columns.
template <typename Value>
inline void piece_by_bf16(const Tensor& weight, const Tensor& y, int64_t tokens, Range rows,
                          const Piece& piece, const Bf16Scratch& scratch) {
  constexpr int64_t kTokens = kMostGroups * kBf16Tokens;
  const int64_t asks = (tokens + kTokens - 1) / kTokens * piece.steps();
  U16* largest = scratch.largest_weights;
  for (int64_t first = rows.begin; first < rows.end; first += kBf16Rows) {
    const int64_t left = rows.end - first, count = left < kBf16Rows ? left : kBf16Rows;
    fill_panel_bf16<Value>(weight, first, count, piece, scratch.panel, largest);
    largest += kBf16Vectors;
    const bool last = left <= kBf16Rows;
    Ahead next =
        ahead_of_panel(weight, last ? rows.begin : first + kBf16Rows,
                       piece.from + (last ? piece.columns : 0), piece.columns, kBf16Rows, asks);
    for (int64_t token = 0; token < tokens; token += kTokens) {
      const int64_t some = tokens - token < kTokens ? tokens - token : kTokens;
      if (token == 0 || some < kTokens) configure_for_bf16(static_cast<int>(some));
      panel_bf16_to<kDigitsOf<Value>>(y, token, some, first, count, piece, scratch, next);
    }
  }
}

// Of kWidth rows, two lanes for each.
inline bool all_in_range(const U16& largest) {
  for (int i = 0; i < kBf16Columns; i += 2) {
    if (!in_range(largest[i] > largest[i + 1] ? largest[i] : largest[i + 1])) return false;
  }
  return true;
}

inline bool token_in_range(const U16& largest) {
  uint16_t most = 0;
  for (int i = 0; i < kBf16Columns; ++i) most = largest[i] > most ? largest[i] : most;
  return in_range(most);
}

// What digits do not hold is multiplied again, with the bits of matmul_a32_by_panels: some rows by
// all tokens, some tokens by all rows.
inline void multiply_out_of_range(const Tensor& x, const Tensor& weight, const Tensor& y,
                                  int64_t tokens, Range rows, const Bf16Scratch& scratch) {
  const U16* largest = scratch.largest_weights;
  for (int64_t first = rows.begin; first < rows.end; first += kBf16Rows, largest += kBf16Vectors) {
    if (all_in_range(largest[0]) && all_in_range(largest[1])) continue;
    const int64_t end = rows.end - first < kBf16Rows ? rows.end : first + kBf16Rows;
    matmul_a32_by_panels(x, weight, y, tokens, {first, end}, scratch.floats);
  }
  for (int64_t token = 0; token < tokens; ++token) {
    if (token_in_range(scratch.largest_x[token])) continue;
    Tensor from = x, to = y;
    from.data += token * row_bytes(x);
    to.data += token * row_bytes(y);
    matmul_a32_by_panels(from, weight, to, 1, rows, scratch.floats);
  }
}

// rows: whole panels, but the last; memory: Bf16Scratch::bytes
template <typename Value>
inline void matmul_a32_by_bf16(const Tensor& x, const Tensor& weight, const Tensor& y,
                               int64_t tokens, Range rows, uint8_t* memory, uint64_t kept) {
  const Bf16Scratch scratch(x, memory);
  const bool keeps = Bf16Scratch::keeps(x), stale = !keeps || kept == 0 || scratch.kept != kept;
  for (int64_t i = 0; i < pieces(x.n_cols); ++i) {
    const int64_t from = i * kPieceColumns, left = x.n_cols - from;
    uint8_t* digits = scratch.x + (keeps ? i * Bf16Scratch::piece_bytes(x) : 0);
    const Piece piece = {from, left < kPieceColumns ? left : kPieceColumns, digits};
    if (stale) split_tokens_bf16(x, tokens, piece, scratch.largest_x);
    piece_by_bf16<Value>(weight, y, tokens, rows, piece, scratch);
  }
  scratch.kept = kept;
  release_tiles();
  multiply_out_of_range(x, weight, y, tokens, rows, scratch);
}

}  // namespace LLM_ISA
}  // namespace llm
