// cache[position of t mod its rows, or its row of a page] = rows[t], rounded to the cache's type;
// one to three caches
#include "ops/kernels.h"
#include "ops/store_row.h"

namespace llm {
namespace LLM_ISA {

static void store(const Op& op, const Step& step, const Task& task) {
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    for (int i = 0; i < kMaxOutputs && op.out[i] != nullptr; ++i) {
      store_row(*op.in[i], t, *op.out[i], step.cache_row(t, op.out[i]->cache_rows()));
    }
  }
}

static int64_t store_tasks(const Op& op, const Step& step) {
  int64_t values = 0;
  for (int i = 0; i < kMaxOutputs && op.out[i] != nullptr; ++i) {
    values += step.n_tokens * op.in[i]->n_cols;
  }
  if (values < kValuesWorthSharing) return 1;
  return step.n_tokens < step.workers ? step.n_tokens : step.workers;
}

const Kernel kStore = {store_tasks, store, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
