// Rows of blocks as they lie in a file -> the tiles that products read.
#pragma once

#include "plan/op.h"
#include "quant/formats.h"

namespace llm {
namespace LLM_ISA {

// One row of tiles, of `count` rows of blocks that are `stride` bytes apart; missing ones are 0.
// each(): called before each tile
template <typename Format, typename Each>
inline void make_row_of_tiles(const uint8_t* rows, int64_t stride, int64_t count, uint8_t* tiles,
                              const Each& each) {
  static const uint8_t kNothing[Format::kBytes] = {};
  constexpr int64_t kBlock = Format::kBytes;
  for (int64_t at = 0; at < stride; at += kBlock, tiles += Format::Tiles::kTileBytes) {
    each();
    for (int row = 0; row < kTileRows; row += kRowsAtOnce) {
      Blocks blocks;
      for (int r = 0; r < kRowsAtOnce; ++r) {
        const bool is_there = row + r < count;
        blocks.of[r] = is_there ? rows + (row + r) * stride + at : kNothing;
      }
      Format::to_tile(blocks, row, tiles);
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
