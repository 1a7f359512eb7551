#pragma once

#include "logits/logits.h"

namespace llm {
namespace LLM_ISA {

extern const LogitKernels kLogits;

}  // namespace LLM_ISA
}  // namespace llm
