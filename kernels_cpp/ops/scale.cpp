// y = x * factor * weight, where there is a weight
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void scale_row(const float* x, const float* weight, float factor, int64_t n, float* y) {
  if (weight == nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor * weight[i];
  }
}

static void scale(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const float* weight = op.in[1] == nullptr ? nullptr : row<const float>(*op.in[1], 0);
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    scale_row(row<const float>(*op.in[0], i), weight, op.params.scale.factor, y.n_cols,
              row<float>(y, i));
  }
}

const Kernel kScale = {row_tasks, scale, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
