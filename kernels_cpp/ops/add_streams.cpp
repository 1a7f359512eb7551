// y[T,i,K] = x[T,i,K] + a[T,K] for streams i >= first
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static void add_streams_row(const float* x, const float* a, int64_t first, int64_t streams,
                            int64_t n, float* y) {
  for (int64_t i = 0; i < streams; ++i) {
    const float* own = x + i * n;
    float* out = y + i * n;
    if (i < first) {
      for (int64_t k = 0; k < n; ++k) out[k] = own[k];
    } else {
      for (int64_t k = 0; k < n; ++k) out[k] = own[k] + a[k];
    }
  }
}

static void add_streams(const Op& op, const Step& step, const Task& task) {
  const Tensor& y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const int64_t first = op.params.add_streams.first;
  const int64_t n = op.in[1]->n_cols;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    add_streams_row(row<const float>(*op.in[0], i), row<const float>(*op.in[1], i), first,
                    y.n_cols / n, n, row<float>(y, i));
  }
}

const Kernel kAddStreams = {row_tasks, add_streams, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
