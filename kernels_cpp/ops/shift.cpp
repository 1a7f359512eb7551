// y = x + what the token's sequence has for this layer
#include "base/simd.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void shift(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const int64_t n = y.n_cols;
  const Range rows = share(task, step.n_tokens);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const int64_t layer = step.slot(t) * op.slot_layers + op.params.shift.layer;
    const float *x = row<const float>(*op.in[0], t), *by = row<const float>(*op.in[1], layer);
    float* out = row<float>(y, t);
    int64_t i = 0;
    for (; i + kWidth <= n; i += kWidth) store(out + i, load(x + i) + load(by + i));
    for (; i < n; ++i) out[i] = x[i] + by[i];
  }
}

const Kernel kShift = {row_tasks, shift, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
