// F16: IEEE 754 binary16.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

struct F16Format {
  typedef Half Value;
};
static_assert(sizeof(F16Format::Value) == 2, "a block is one value");

}  // namespace LLM_ISA
}  // namespace llm
