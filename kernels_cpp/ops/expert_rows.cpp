// y[T*k,K]: row places[t,i] = x[t], x float32 or a8
#include <string.h>

#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static int64_t expert_rows_tasks(const Op& op, const Step& step) {
  const int64_t values = rows_in_use(*op.out[0], step) * op.out[0]->n_cols;
  if (values < kValuesWorthSharing) return 1;
  const int64_t wanted = 2 * step.workers;
  return step.n_tokens < wanted ? step.n_tokens : wanted;
}

static void expert_rows(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &places = *op.in[1];
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    for (int64_t i = 0; i < places.n_cols; ++i) {
      const auto place = static_cast<int64_t>(row<const float>(places, t)[i]);
      memcpy(row<uint8_t>(*op.out[0], place), row<const uint8_t>(x, t), row_bytes(x));
    }
  }
}

const Kernel kExpertRows = {expert_rows_tasks, expert_rows, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
