// y = g * sigmoid(alpha * g) * (u + 1), g the gate up to limit, u from -limit to limit
#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

// NaN stays NaN: min and max give their second operand then.
static F32 clamped_silu_mul_of(F32 gate, F32 up, float alpha, float limit) {
  const F32 most = broadcast(limit), g = min(most, gate);
  const F32 u = max(broadcast(-limit), min(most, up));
  return g / (exp(g * -alpha) + 1.0f) * (u + 1.0f);
}

static void clamped_silu_mul(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const auto [alpha, limit] = op.params.clamped_silu_mul;
  const int64_t n = y.n_cols;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float *gate = row<const float>(*op.in[0], r), *up = row<const float>(*op.in[1], r);
    float* to = row<float>(y, r);
    int64_t i = 0;
    for (; i + kWidth <= n; i += kWidth) {
      store(to + i, clamped_silu_mul_of(load(gate + i), load(up + i), alpha, limit));
    }
    if (i == n) continue;
    const F32 g = load_part(gate + i, n - i), u = load_part(up + i, n - i);
    store_part(to + i, clamped_silu_mul_of(g, u, alpha, limit), n - i);
  }
}

const Kernel kClampedSiluMul = {row_tasks, clamped_silu_mul, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
