// F16: IEEE 754 binary16.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

struct F16Values {
  typedef Half Value;
};

}  // namespace LLM_ISA
}  // namespace llm
