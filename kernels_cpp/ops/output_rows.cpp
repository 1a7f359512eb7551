// y[O,K] = the rows of x[T,K] of tokens whose logits are asked for
#include <string.h>

#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void output_rows(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const Range rows = share(task, step.n_outputs);
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    memcpy(row<float>(y, i), row<const float>(x, step.output(i)), y.n_cols * sizeof(float));
  }
}

const Kernel kOutputRows = {row_tasks, output_rows, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
