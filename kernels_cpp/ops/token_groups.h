// Activations of a few tokens side by side, block by block, as products with tiles read them: all
// tokens are reached from one address.
#pragma once

#include <type_traits>

#include "ops/digits.h"
#include "quant/a8.h"

namespace llm {
namespace LLM_ISA {

// 32 columns of each token
template <int kTokens>
struct A8Group {
  int8_t values[kTokens][kA8Block];
  A8Scale scales[kTokens];
  A8Offset offsets[kTokens];

  A8Row row(int t) const { return {values[t], scales + t, offsets + t}; }  // of one block
};

template <int kTokens>
struct DigitGroup {
  int8_t digits[kTokens][kDigitBytes];
  float steps[kTokens];
  float sums[kTokens];  // of the values
};

// Calls pass(size of a group as a constant) with the smallest of 1, 2, 4, 6 and 8 that holds
// `count` tokens.
template <int kMost, typename Pass>
inline void in_padded_group(int64_t count, const Pass& pass) {
  if constexpr (kMost > 1) {
    constexpr int kSmaller = kMost > 4 ? kMost - 2 : kMost / 2;
    if (count <= kSmaller) return in_padded_group<kSmaller>(count, pass);
  }
  pass(std::integral_constant<int, kMost>());
}

// Calls pass(first token, size of its group as a constant, how many tokens there are) for all of
// them; a group may have room for one too many.
template <int kMost, typename Pass>
inline void in_padded_groups(int64_t tokens, const Pass& pass) {
  for (int64_t token = 0; token < tokens; token += kMost) {
    const int64_t left = tokens - token, count = left < kMost ? left : kMost;
    in_padded_group<kMost>(count, [&](auto size) { pass(token, size, count); });
  }
}

// Tokens from `token` on, of which `count` are there; the others count as 0.
template <int kTokens>
inline void gather_group(const Tensor& x, int64_t token, int64_t count, A8Group<kTokens>* group) {
  for (int64_t b = 0; b < x.n_cols / kA8Block; ++b) {
    for (int t = 0; t < kTokens; ++t) {
      if (t < count) {
        const A8Row row = a8_row(x, token + t);
        std::memcpy(group[b].values[t], row.values + kA8Block * b, kA8Block);
        group[b].scales[t] = row.scales[b];
        group[b].offsets[t] = row.offsets[b];
      } else {
        std::memset(group[b].values[t], 0, kA8Block);
        group[b].scales[t] = {};
        group[b].offsets[t] = {};
      }
    }
  }
}

inline float sum_block(const float* x) {
  F32 total = {};
  for (int i = 0; i < kDigitBlock; i += kWidth) total += load(x + i);
  return sum(total);
}

template <int kTokens>
inline void gather_group(const Tensor& x, int64_t token, int64_t count,
                         DigitGroup<kTokens>* group) {
  for (int64_t b = 0; b < x.n_cols / kDigitBlock; ++b) {
    for (int t = 0; t < kTokens; ++t) {
      constexpr float kZeros[kDigitBlock] = {};
      const float* from = t < count ? row<const float>(x, token + t) + kDigitBlock * b : kZeros;
      group[b].steps[t] = digit_step(from);
      group[b].sums[t] = sum_block(from);
      split_digits(from, group[b].steps[t], group[b].digits[t]);
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
