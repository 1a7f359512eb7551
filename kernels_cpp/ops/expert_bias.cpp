// y[T*k,N]: row r = x[r] + bias[e*N:(e+1)*N], e the expert that has the row by its starts
#include "ops/experts.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void expert_bias(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const Experts experts(*op.in[2]);
  const Range rows = share(task, rows_in_use(y, step));
  experts.each([&](int64_t expert) {
    const float* bias = row<const float>(*op.in[1], 0) + expert * x.n_cols;
    const int64_t first = experts.begin(expert), end = experts.end(expert);
    for (int64_t r = first < rows.begin ? rows.begin : first; r < end && r < rows.end; ++r) {
      const float* from = row<const float>(x, r);
      float* to = row<float>(y, r);
      for (int64_t i = 0; i < x.n_cols; ++i) to[i] = from[i] + bias[i];
    }
  });
}

const Kernel kExpertBias = {row_tasks, expert_bias, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
