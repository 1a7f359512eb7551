// y = cap * tanh(x * scale)
#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void softcap_row(const float* x, float scale, float cap, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(y + i, tanh(load(x + i) * scale) * cap);
  if (i < n) store_part(y + i, tanh(load_part(x + i, n - i) * scale) * cap, n - i);
}

static void softcap(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const auto [scale, cap] = op.params.softcap;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    softcap_row(row<const float>(*op.in[0], i), scale, cap, y.n_cols, row<float>(y, i));
  }
}

const Kernel kSoftcap = {row_tasks, softcap, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
