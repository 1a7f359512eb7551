// Tokens in groups of sizes that are known to the compiler.
#pragma once

#include <stdint.h>

#include <type_traits>

namespace llm {
namespace LLM_ISA {

// What follows groups of 12, 8, 6 or 4 tokens when fewer are left.
constexpr int smaller_group(int size) { return size > 8 ? 8 : size > 4 ? 4 : size / 2; }

// Calls pass(first token, size of the group as a constant) for all tokens from `token` on.
template <int kSize, typename Pass>
inline void in_groups(int64_t tokens, const Pass& pass, int64_t token = 0) {
  constexpr int kSmaller = smaller_group(kSize);
  for (; token + kSize <= tokens; token += kSize) {
    if (2 * kSmaller > kSize && tokens - token == 2 * kSmaller)
      break;  // two alike, not a small one
    pass(token, std::integral_constant<int, kSize>());
  }
  if constexpr (kSize > 1) {
    if (token < tokens) in_groups<kSmaller>(tokens, pass, token);
  }
}

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

}  // namespace LLM_ISA
}  // namespace llm
