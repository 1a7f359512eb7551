// F32: IEEE 754 binary32.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

struct F32Values {
  typedef float Value;
};

}  // namespace LLM_ISA
}  // namespace llm
