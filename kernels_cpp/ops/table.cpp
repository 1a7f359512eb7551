// All ops of one instruction set, in the order of OpCode.
#include "ops/table.h"

#include "logits/kernels.h"
#include "ops/kernels.h"
#include "quantizer/search.h"

namespace llm {
namespace LLM_ISA {

KernelTable table() {
  return {
      {kEmbed,     kTableRows, kRmsNorm,  kQuantize,     kMatmul,       kRope,       kStore,
       kAttention, kSiluMul,   kGeluMul,  kAdd,          kScale,        kSoftcap,    kSparsify,
       kColumns,   kConcat,    kMatchRms, kAltupPredict, kAltupCorrect, kAddStreams, kOutputRows},
      kQuantizeInt4,
      kQuantizeInt8,
      kLogits};
}

}  // namespace LLM_ISA
}  // namespace llm
