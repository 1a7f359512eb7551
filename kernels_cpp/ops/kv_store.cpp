// cache[position of t] = k[t], v[t], rounded to the cache's type
#include "ops/kernels.h"
#include "ops/store_row.h"

namespace llm {
namespace LLM_ISA {

static void kv_store(const Op& op, const Step& step, const Task& task) {
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    store_row(*op.in[0], t, *op.out[0], step.start + t);
    store_row(*op.in[1], t, *op.out[1], step.start + t);
  }
}

static int64_t kv_store_tasks(const Op& op, const Step& step) {
  const int64_t values = step.n_tokens * op.in[0]->n_cols;
  if (values < kValuesWorthSharing) return 1;
  return step.n_tokens < step.workers ? step.n_tokens : step.workers;
}

const Kernel kKvStore = {kv_store_tasks, kv_store, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
