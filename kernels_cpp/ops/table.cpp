// All ops of one instruction set, in the order of OpCode.
#include "ops/table.h"

#include "ops/kernels.h"
#include "quantizer/search.h"

namespace llm {
namespace LLM_ISA {

KernelTable table() {
  return {{kEmbed, kRmsNorm, kQuantize, kMatmul, kRope, kKvStore, kQueryStore, kAttention, kSiluMul,
           kAdd, kOutputRows},
          kQuantizeInt4,
          kQuantizeInt8};
}

}  // namespace LLM_ISA
}  // namespace llm
