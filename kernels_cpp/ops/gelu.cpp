// y = gelu(x), by its tanh approximation
#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void gelu_row(const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, gelu(load(x + i)));
  if (i < n) store_part(y + i, gelu(load_part(x + i, n - i)), n - i);
}

static void gelu(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    gelu_row(row<const float>(*op.in[0], i), y.n_cols, row<float>(y, i));
  }
}

const Kernel kGelu = {row_tasks, gelu, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
