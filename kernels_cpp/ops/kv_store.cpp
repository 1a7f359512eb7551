// cache[position of t mod its rows] = k[t], v[t], rounded to the cache's type
#include "ops/kernels.h"
#include "ops/store_row.h"

namespace llm {
namespace LLM_ISA {

static void kv_store(const Op& op, const Step& step, const Task& task) {
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    for (int i = 0; i < 2; ++i) {
      store_row(*op.in[i], t, *op.out[i], (step.start + t) % op.out[i]->n_rows);
    }
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
