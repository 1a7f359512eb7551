// y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, over each row, where there is a bias
#include "ops/kernels.h"
#include "ops/root.h"
#include "ops/sums.h"

namespace llm {
namespace LLM_ISA {

static void layer_norm_row(const float* x, const float* weight, const float* bias, float eps,
                           int64_t n, float* y) {
  const float mean = total(x, n) / static_cast<float>(n);
  const float inverse = 1.0f / root_of(squared_distance(x, mean, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * weight[i];
  if (bias == nullptr) return;
  for (int64_t i = 0; i < n; ++i) y[i] += bias[i];
}

static void layer_norm(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const float* weight = row<const float>(*op.in[1], 0);
  const float* bias = op.in[2] == nullptr ? nullptr : row<const float>(*op.in[2], 0);
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    layer_norm_row(row<const float>(x, i), weight, bias, op.params.layer_norm.eps, x.n_cols,
                   row<float>(y, i));
  }
}

const Kernel kLayerNorm = {row_tasks, layer_norm, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
