// y = relu(x - mean(x) - deviations * std(x)), mean and standard deviation of each row
#include "ops/kernels.h"
#include "ops/root.h"
#include "ops/sums.h"

namespace llm {
namespace LLM_ISA {

static void sparsify_row(const float* x, float deviations, int64_t n, float* y) {
  const float mean = total(x, n) / static_cast<float>(n);
  const float variance = squared_distance(x, mean, n) / static_cast<float>(n);
  const float cutoff = mean + deviations * root_of(variance);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] <= cutoff ? 0.0f : x[i] - cutoff;  // NaN stays
}

static void sparsify(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const float deviations = op.params.sparsify.deviations;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    sparsify_row(row<const float>(*op.in[0], i), deviations, y.n_cols, row<float>(y, i));
  }
}

const Kernel kSparsify = {row_tasks, sparsify, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
