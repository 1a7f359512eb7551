// x[T,K] = table[token of the step]
#include "ops/kernels.h"
#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

static void embed(const Op& op, const Step& step, const Task& task) {
  const Tensor &table = *op.in[0], &x = *op.out[0];
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    dequantize(table, step.tokens[t], 0, x.n_cols, row<float>(x, t));
  }
}

const Kernel kEmbed = {row_tasks, embed, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
