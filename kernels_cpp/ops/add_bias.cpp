// y = x + bias, the same for every row
#include "base/simd.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void add_bias_row(const float* x, const float* bias, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, load(x + i) + load(bias + i));
  for (; i < n; ++i) y[i] = x[i] + bias[i];
}

static void add_bias(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const float* bias = row<const float>(*op.in[1], 0);
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    add_bias_row(row<const float>(*op.in[0], i), bias, y.n_cols, row<float>(y, i));
  }
}

const Kernel kAddBias = {row_tasks, add_bias, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
