// y = x * sigmoid(x)
#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void silu_row(const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, silu(load(x + i)));
  if (i < n) store_part(y + i, silu(load_part(x + i, n - i)), n - i);
}

static void silu(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    silu_row(row<const float>(*op.in[0], i), y.n_cols, row<float>(y, i));
  }
}

const Kernel kSilu = {row_tasks, silu, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
