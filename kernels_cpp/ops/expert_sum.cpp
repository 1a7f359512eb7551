// y[T,N] = sum over i < k of shares[t,i] * x[places[t,i]]
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static int64_t expert_sum_tasks(const Op& op, const Step& step) {
  if (rows_in_use(*op.in[0], step) * op.in[0]->n_cols < kValuesWorthSharing) return 1;
  const int64_t wanted = 2 * step.workers;
  return step.n_tokens < wanted ? step.n_tokens : wanted;
}

static void expert_sum(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    const float *places = row<const float>(*op.in[1], t), *shares = row<const float>(*op.in[2], t);
    float* to = row<float>(y, t);
    for (int64_t i = 0; i < op.in[1]->n_cols; ++i) {
      const float* from = row<const float>(x, static_cast<int64_t>(places[i]));
      const float share = shares[i];
      if (i == 0) {
        for (int64_t n = 0; n < y.n_cols; ++n) to[n] = share * from[n];
      } else {
        for (int64_t n = 0; n < y.n_cols; ++n) to[n] += share * from[n];
      }
    }
  }
}

const Kernel kExpertSum = {expert_sum_tasks, expert_sum, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
