// Q4_1: float16 d, float16 m, 16 bytes of nibbles (low ones first); value = d * level + m.
#pragma once

#include "quant/bytes32.h"

namespace llm {
namespace LLM_ISA {

struct Q4_1 {
  static constexpr int kBytes = 20;

  static void floats(const uint8_t* block, F32 (&out)[32 / kWidth]) {
    to_floats<false>(unpack_nibbles(block + 4), out);
    const float d = half_at(block), m = half_at(block + 2);
    for (F32& values : out) values = values * d + m;
  }
};
static_assert(Q4_1::kBytes == 2 + 2 + 32 / 2, "two float16 and 32 nibbles");

}  // namespace LLM_ISA
}  // namespace llm
