// Q8_0: float16 d, 32 int8; value = d * level.
#pragma once

#include "quant/bytes32.h"

namespace llm {
namespace LLM_ISA {

struct Q8_0 {
  static constexpr int kBytes = 34;

  static void floats(const uint8_t* block, F32 (&out)[32 / kWidth]) {
    to_floats<true>(load_bytes(block + 2), out);
    const float d = half_at(block);
    for (F32& values : out) values *= d;
  }
};
static_assert(Q8_0::kBytes == 2 + 32, "a float16 and 32 int8");

}  // namespace LLM_ISA
}  // namespace llm
