// A8: a row of activations as int8 in blocks of 32: K values, K/32 scales with sums and K/32
// offsets. core/quant/blocks/a8.py defines it. A value is scale * (int8 + zero).
#pragma once

#include <cstdint>

#include "plan/op.h"

namespace llm {
namespace LLM_ISA {

struct A8Scale {
  float scale;
  float sum;  // scale * total
};

struct A8Offset {
  int16_t zero;
  int16_t total;  // of the block's values without their scale: sum(int8) + 32 * zero
};

struct A8Row {
  const int8_t* values;     // [K]
  const A8Scale* scales;    // [K / 32]
  const A8Offset* offsets;  // [K / 32]
};

// Of the activations that meet one of kScales scales of a block, as floats; offset: theirs
template <int kScales>
inline float sum_of(const A8Scale& scale, const A8Offset& offset) {
  return kScales == 1 ? scale.sum : scale.scale * static_cast<float>(offset.total);
}

inline A8Row a8_row(const Tensor& x, int64_t index) {
  const uint8_t* data = row<const uint8_t>(x, index);
  const auto* scales = reinterpret_cast<const A8Scale*>(data + x.n_cols);
  const auto* offsets = reinterpret_cast<const A8Offset*>(scales + x.n_cols / kA8Block);
  return {reinterpret_cast<const int8_t*>(data), scales, offsets};
}

}  // namespace LLM_ISA
}  // namespace llm
