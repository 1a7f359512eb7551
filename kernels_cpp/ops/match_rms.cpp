// y = x * sqrt(mean(target^2) / max(mean(x^2), eps)), of each row
#include "base/simd.h"
#include "ops/kernels.h"
#include "ops/root.h"

namespace llm {
namespace LLM_ISA {

static void match_rms_row(const float* x, const float* target, float eps, int64_t n, float* y) {
  const float wanted = dot(target, target, n) / static_cast<float>(n);
  const float found = dot(x, x, n) / static_cast<float>(n);
  const float ratio = root_of(wanted) / root_of(found < eps ? eps : found);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * ratio;
}

static void match_rms(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const float eps = op.params.match_rms.eps;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    match_rms_row(row<const float>(*op.in[0], i), row<const float>(*op.in[1], i), eps, y.n_cols,
                  row<float>(y, i));
  }
}

const Kernel kMatchRms = {row_tasks, match_rms, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
