// A8: a row of activations as int8 in blocks of 32: K values, K/32 scales, K/32 sums (scale times
// the sum of the block's int8 values). core/quant/a8.py defines it.
#pragma once

#include <cstdint>

#include "plan/op.h"

namespace llm {
namespace LLM_ISA {

struct A8Row {
  const int8_t* values;  // [K]
  const float* scales;   // [K / 32]
  const float* sums;     // [K / 32]
};

inline A8Row a8_row(const Tensor& x, int64_t index) {
  const uint8_t* data = row<const uint8_t>(x, index);
  const auto* scales = reinterpret_cast<const float*>(data + x.n_cols);
  return {reinterpret_cast<const int8_t*>(data), scales, scales + x.n_cols / kA8Block};
}

}  // namespace LLM_ISA
}  // namespace llm
