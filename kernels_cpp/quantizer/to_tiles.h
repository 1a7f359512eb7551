// Rows of blocks as tiles of the same values: what the products read.
#pragma once

#include <cstdint>

#include "plan/op.h"

namespace llm {

// std::invalid_argument where `type` has no rows of blocks.
// rows [n_rows][n_cols / 32] of blocks -> tiles, whole ones: values of missing rows are zero
void to_tiles(DType type, const uint8_t* rows, int64_t n_rows, int64_t n_cols, uint8_t* tiles,
              int threads);

}  // namespace llm
