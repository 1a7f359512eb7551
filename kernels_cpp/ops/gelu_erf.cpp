// y = x * (1 + erf(x / sqrt(2))) / 2
#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void gelu_erf_row(const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, gelu_erf(load(x + i)));
  if (i < n) store_part(y + i, gelu_erf(load_part(x + i, n - i)), n - i);
}

static void gelu_erf(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    gelu_erf_row(row<const float>(*op.in[0], i), y.n_cols, row<float>(y, i));
  }
}

const Kernel kGeluErf = {row_tasks, gelu_erf, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
