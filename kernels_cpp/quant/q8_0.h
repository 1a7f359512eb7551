// Q8_0: float16 d, 32 int8; value = d * level.
#pragma once

#include "quant/bytes32.h"
#include "quant/to_tile.h"

namespace llm {
namespace LLM_ISA {

struct Q8_0Rows {
  static constexpr int kBytes = 2 + 32;

  static void floats(const uint8_t* block, F32 (&out)[32 / kWidth]) {
    to_floats<true>(load_bytes(block + 2), out);
    const float d = half_at(block);
    for (F32& values : out) values *= d;
  }

  static void to_tile(const uint8_t* block, int row, uint8_t* tile) {
    block_to_tile<1, 8>(block, row, tile);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
