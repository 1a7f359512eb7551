// x[T,K] = table[token of the step], row 0 for tokens that the table does not have
#include "ops/kernels.h"
#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

static void table_rows(const Op& op, const Step& step, const Task& task) {
  const Tensor &table = *op.in[0], &x = *op.out[0];
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    const int64_t token = step.tokens[t];
    dequantize(table, token < table.n_rows ? token : 0, 0, x.n_cols, row<float>(x, t));
  }
}

const Kernel kTableRows = {row_tasks, table_rows, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
