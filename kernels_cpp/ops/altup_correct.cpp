// y[T,i,K] = x[T,i,K] + (coefs[T,i] + 1) * (activated[T,K] - x[T,active,K])
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void altup_correct_row(const float* x, const float* activated, const float* coefs,
                              int64_t streams, int64_t active, int64_t n, float* y) {
  for (int64_t i = 0; i < streams; ++i) {
    const float coef = coefs[i] + 1.0f;
    const float *own = x + i * n, *predicted = x + active * n;
    for (int64_t k = 0; k < n; ++k) y[i * n + k] = own[k] + coef * (activated[k] - predicted[k]);
  }
}

static void altup_correct(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const int64_t active = op.params.altup_correct.active;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    altup_correct_row(row<const float>(*op.in[0], i), row<const float>(*op.in[1], i),
                      row<const float>(*op.in[2], i), op.in[2]->n_cols, active, op.in[1]->n_cols,
                      row<float>(y, i));
  }
}

const Kernel kAltupCorrect = {row_tasks, altup_correct, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
