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

}  // namespace LLM_ISA
}  // namespace llm
