// y = sigmoid(gate) * x
#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void sigmoid_mul_row(const float* gate, const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, load(x + i) * sigmoid(load(gate + i)));
  if (i < n)
    store_part(y + i, load_part(x + i, n - i) * sigmoid(load_part(gate + i, n - i)), n - i);
}

static void sigmoid_mul(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    sigmoid_mul_row(row<const float>(*op.in[0], i), row<const float>(*op.in[1], i), y.n_cols,
                    row<float>(y, i));
  }
}

const Kernel kSigmoidMul = {row_tasks, sigmoid_mul, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
