// Matrices of float32 into tiles, by several threads.
#pragma once

#include <cstdint>

#include "plan/op.h"

namespace llm {

// values [rows, columns], importance [columns], columns a multiple of 32; out: the tiles of rows
// padded to whole tiles. std::system_error if the threads cannot be started.
void quantize_matrix(const TileQuantizer& quantizer, const float* values, int64_t rows,
                     int64_t columns, const float* importance, uint8_t* out, int threads);

}  // namespace llm
