// Q8_0: float16 d, 32 int8; value = d * level. As tiles it is Int8.
#pragma once

#include "quant/int8.h"

namespace llm {
namespace LLM_ISA {

struct Q8_0Rows {
  typedef Int8Tiles Tiles;
  static constexpr int kBytes = 2 + 32;

  static void to_tile(const Blocks& blocks, int row, uint8_t* tile) {
    blocks_to_tile<1, 8>(blocks, row, tile);
  }
};

}  // namespace LLM_ISA
}  // namespace llm
