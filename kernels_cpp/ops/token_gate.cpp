// y[T,N] = sigmoid(h[T,K] . weight[K]) * x[T,N], a gate for each token
#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void token_gate(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &h = *op.in[1], &y = *op.out[0];
  const float* weight = row<const float>(*op.in[2], 0);
  const Range rows = share(task, rows_in_use(y, step));
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float gate = sigmoid(broadcast(dot(row<const float>(h, r), weight, h.n_cols)))[0];
    const float* from = row<const float>(x, r);
    float* to = row<float>(y, r);
    for (int64_t i = 0; i < y.n_cols; ++i) to[i] = gate * from[i];
  }
}

const Kernel kTokenGate = {row_tasks, token_gate, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
