// y = a * b
#include "base/simd.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void mul_row(const float* a, const float* b, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, load(a + i) * load(b + i));
  for (; i < n; ++i) y[i] = a[i] * b[i];
}

static void mul(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    mul_row(row<const float>(*op.in[0], i), row<const float>(*op.in[1], i), y.n_cols,
            row<float>(y, i));
  }
}

const Kernel kMul = {row_tasks, mul, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
