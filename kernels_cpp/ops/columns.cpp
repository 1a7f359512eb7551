// y[T,N] = x[T, first : first + N]
#include <string.h>

#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void columns(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const int64_t first = op.params.columns.first;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    memcpy(row<float>(y, i), row<const float>(*op.in[0], i) + first, y.n_cols * sizeof(float));
  }
}

const Kernel kColumns = {row_tasks, columns, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
