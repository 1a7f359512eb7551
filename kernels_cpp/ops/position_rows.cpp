// x[T,K] = table[first + position of the token], the last row for positions that the table does not
// have
#include "ops/kernels.h"
#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

static void position_rows(const Op& op, const Step& step, const Task& task) {
  const Tensor &table = *op.in[0], &x = *op.out[0];
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    const int64_t wanted = op.params.position_rows.first + step.position(t);
    const int64_t last = table.n_rows - 1;
    dequantize(table, wanted < last ? wanted : last, 0, x.n_cols, row<float>(x, t));
  }
}

const Kernel kPositionRows = {row_tasks, position_rows, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
