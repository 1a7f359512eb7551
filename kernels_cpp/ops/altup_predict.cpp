// y[T,i,K] = x[T,i,K] + sum over j of coefs[T,i,j] * x[T,j,K], of S streams
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void altup_predict_row(const float* x, const float* coefs, int64_t streams, int64_t n,
                              float* y) {
  for (int64_t i = 0; i < streams; ++i) {
    float* out = y + i * n;
    for (int64_t k = 0; k < n; ++k) out[k] = x[i * n + k];
    for (int64_t j = 0; j < streams; ++j) {
      const float coef = coefs[i * streams + j];
      const float* in = x + j * n;
      for (int64_t k = 0; k < n; ++k) out[k] += coef * in[k];
    }
  }
}

static void altup_predict(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  int64_t streams = 1;
  while (streams * streams < op.in[1]->n_cols) ++streams;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    altup_predict_row(row<const float>(*op.in[0], i), row<const float>(*op.in[1], i), streams,
                      y.n_cols / streams, row<float>(y, i));
  }
}

const Kernel kAltupPredict = {row_tasks, altup_predict, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
