// y[T,N] = x[T, first : first + N], or of every `stride` columns from there the first `run`
#include <string.h>

#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void columns(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const auto [first, run, stride] = op.params.columns;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const float* from = row<const float>(*op.in[0], i) + first;
    for (int64_t to = 0; to < y.n_cols; to += run, from += stride) {
      memcpy(row<float>(y, i) + to, from, run * sizeof(float));
    }
  }
}

const Kernel kColumns = {row_tasks, columns, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
