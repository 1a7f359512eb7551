// BF16: the upper half of an IEEE 754 binary32.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

struct BF16Format {
  typedef Brain Value;
};
static_assert(sizeof(BF16Format::Value) == 2, "a block is one value");

}  // namespace LLM_ISA
}  // namespace llm
