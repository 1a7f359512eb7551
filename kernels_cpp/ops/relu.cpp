// y = max(x, 0)
#include "base/simd.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

// NaN stays NaN.
static F32 positive(F32 x) { return choose(x < 0.0f, F32{}, x); }

static void relu_row(const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, positive(load(x + i)));
  if (i < n) store_part(y + i, positive(load_part(x + i, n - i)), n - i);
}

static void relu(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    relu_row(row<const float>(*op.in[0], i), y.n_cols, row<float>(y, i));
  }
}

const Kernel kRelu = {row_tasks, relu, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
