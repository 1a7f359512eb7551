// y[T,K+N] = a[T,K] beside b[T,N]
#include <string.h>

#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void concat(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const Tensor &a = *op.in[0], &b = *op.in[1];
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    memcpy(row<float>(y, i), row<const float>(a, i), a.n_cols * sizeof(float));
    memcpy(row<float>(y, i) + a.n_cols, row<const float>(b, i), b.n_cols * sizeof(float));
  }
}

const Kernel kConcat = {row_tasks, concat, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
