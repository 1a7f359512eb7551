// A row's block in its place in a tile, which has each half and each word of 16 rows together.
#pragma once

#include <cstdint>
#include <cstring>

#include "quant/dtype.h"

namespace llm {
namespace LLM_ISA {

// A block of float16 scales, then words: as most formats have them.
template <int kHalves, int kWords>
inline void block_to_tile(const uint8_t* block, int row, uint8_t* tile) {
  constexpr int kHalf = 2, kWord = 4;  // bytes
  for (int i = 0; i < kHalves; ++i, block += kHalf, tile += kHalf * kTileRows) {
    std::memcpy(tile + kHalf * row, block, kHalf);
  }
  for (int i = 0; i < kWords; ++i, block += kWord, tile += kWord * kTileRows) {
    std::memcpy(tile + kWord * row, block, kWord);
  }
}

}  // namespace LLM_ISA
}  // namespace llm
