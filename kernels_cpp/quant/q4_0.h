// Q4_0: float16 d, 16 bytes of nibbles (low ones first); value = d * (level - 8).
#pragma once

#include "quant/bytes32.h"

namespace llm {
namespace LLM_ISA {

struct Q4_0 {
  static constexpr int kBytes = 18;

  static void floats(const uint8_t* block, F32 (&out)[32 / kWidth]) {
    to_floats<false>(unpack_nibbles(block + 2), out);
    const float d = half_at(block);
    for (F32& values : out) values = (values - 8.0f) * d;
  }
};
static_assert(Q4_0::kBytes == 2 + 32 / 2, "a float16 and 32 nibbles");

}  // namespace LLM_ISA
}  // namespace llm
