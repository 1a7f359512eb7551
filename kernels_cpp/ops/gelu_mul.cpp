// y = gelu(gate) * up, by its tanh approximation
#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void gelu_mul_row(const float* gate, const float* up, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, gelu(load(gate + i)) * load(up + i));
  if (i < n) store_part(y + i, gelu(load_part(gate + i, n - i)) * load_part(up + i, n - i), n - i);
}

static void gelu_mul(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    gelu_mul_row(row<const float>(*op.in[0], i), row<const float>(*op.in[1], i), y.n_cols,
                 row<float>(y, i));
  }
}

const Kernel kGeluMul = {row_tasks, gelu_mul, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
