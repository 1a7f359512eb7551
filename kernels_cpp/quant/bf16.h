// BF16: the upper half of an IEEE 754 binary32.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

struct BF16Values {
  typedef Brain Value;
};

}  // namespace LLM_ISA
}  // namespace llm
