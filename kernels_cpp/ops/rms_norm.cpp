// y = x / sqrt(mean(x^2) + eps) * weight, over each `width` values of a row
#include "base/simd.h"
#include "ops/kernels.h"
#include "ops/root.h"

namespace llm {
namespace LLM_ISA {

static void rms_norm_row(const float* x, const float* weight, float eps, int64_t n, float* y) {
  const float root = root_of(dot(x, x, n) / static_cast<float>(n) + eps);
  const float inverse = 1.0f / root;
  int64_t i = 0;
  if (weight == nullptr) {
    for (; i < n; ++i) y[i] = x[i] * inverse;
    return;
  }
  for (; i + kWidth <= n; i += kWidth) store(y + i, load(x + i) * inverse * load(weight + i));
  for (; i < n; ++i) y[i] = x[i] * inverse * weight[i];
}

static void rms_norm(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const auto [eps, width] = op.params.rms_norm;
  const float* weight = op.in[1] == nullptr ? nullptr : row<const float>(*op.in[1], 0);
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    for (int64_t at = 0; at < x.n_cols; at += width) {
      rms_norm_row(row<const float>(x, i) + at, weight, eps, width, row<float>(y, i) + at);
    }
  }
}

const Kernel kRmsNorm = {row_tasks, rms_norm, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
