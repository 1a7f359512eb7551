// ring[position of t mod its rows] = q[t], rounded to the ring's type
#include "ops/kernels.h"
#include "ops/store_row.h"

namespace llm {
namespace LLM_ISA {

static void query_store(const Op& op, const Step& step, const Task& task) {
  const Tensor& ring = *op.out[0];
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    store_row(*op.in[0], t, ring, (step.start + t) % ring.n_rows);
  }
}

static int64_t query_store_tasks(const Op& op, const Step& step) {
  if (step.n_tokens * op.in[0]->n_cols < kValuesWorthSharing) return 1;
  return step.n_tokens < step.workers ? step.n_tokens : step.workers;
}

const Kernel kQueryStore = {query_store_tasks, query_store, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
