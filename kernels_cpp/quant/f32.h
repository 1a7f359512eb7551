// F32: IEEE 754 binary32.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

struct F32Format {
  typedef float Value;
};
static_assert(sizeof(F32Format::Value) == 4, "a block is one value");

}  // namespace LLM_ISA
}  // namespace llm
