// Square roots of sums of squares that rows are divided by.
#pragma once

namespace llm {
namespace LLM_ISA {

// NaN where x overflowed: infinity would divide a whole row to 0 in silence.
inline float root_of(float x) {
  return x == __builtin_inff() ? __builtin_nanf("") : __builtin_sqrtf(x);
}

}  // namespace LLM_ISA
}  // namespace llm
