#pragma once

#include "plan/op.h"

namespace llm {

// Throws std::invalid_argument unless the operands of op `index` fit together, so that no kernel
// reads or writes outside a tensor.
void check_op(const Op& op, size_t index);

}  // namespace llm
