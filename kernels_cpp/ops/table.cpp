// All ops of one instruction set, in the order of OpCode.
#include "ops/table.h"

#include "logits/kernels.h"
#include "ops/kernels.h"
#include "quantizer/search.h"

namespace llm {
namespace LLM_ISA {

KernelTable table() {
#define LLM_KERNEL(name, check) k##name,
  return {{LLM_OPS(LLM_KERNEL)}, kQuantizeInt4, kQuantizeInt8, kLogits};
#undef LLM_KERNEL
}

}  // namespace LLM_ISA
}  // namespace llm
