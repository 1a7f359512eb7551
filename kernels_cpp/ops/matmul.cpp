// y[T,N] = x[T,K] . weight[N,K]^T, x float32 or a8, the weight in any format
#include "ops/kernels.h"
#include "ops/matmul_a32.h"
#include "ops/matmul_a8.h"

namespace llm {
namespace LLM_ISA {

// From how many tokens on unpacking a panel of weights pays.
constexpr int64_t kPanelWorthA32 = 3;
constexpr int64_t kPanelWorthA8 = 6;

constexpr int64_t kTaskBytes = 48 << 10;  // of weights: a few microseconds of memory traffic
constexpr int64_t kTasksPerWorker = 4;    // of a large product, so that no worker waits for long

static int64_t tokens_of(const Tensor& x, const Step& step) { return rows_in_use(x, step); }

static int64_t matmul_tasks(const Op& op, const Step& step) {
  const Tensor& weight = *op.in[1];
  const int64_t panels = (weight.n_rows + kWidth - 1) / kWidth;
  const int64_t bytes = weight.n_rows * row_bytes(weight.dtype, weight.n_cols);
  const int64_t tokens = tokens_of(*op.in[0], step);
  int64_t tasks = bytes * tokens / kTaskBytes;
  if (tokens > 1 && tasks > kTasksPerWorker * step.workers) tasks = kTasksPerWorker * step.workers;
  if (tasks > panels) tasks = panels;
  return tasks < 1 ? 1 : tasks;
}

static void matmul_a32(const Op& op, int64_t tokens, Range rows, float* scratch) {
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  if (tokens >= kPanelWorthA32) return matmul_by_panels(x, weight, y, tokens, rows, scratch);
  switch (weight.dtype) {
    case DType::kF32:
      return matmul_by_rows<FloatRow<F32Format::Value>>(x, weight, y, tokens, rows, scratch);
    case DType::kF16:
      return matmul_by_rows<FloatRow<F16Format::Value>>(x, weight, y, tokens, rows, scratch);
    case DType::kBF16:
      return matmul_by_rows<FloatRow<BF16Format::Value>>(x, weight, y, tokens, rows, scratch);
    case DType::kQ4_0:
      return matmul_by_rows<BlockRow<Q4_0>>(x, weight, y, tokens, rows, scratch);
    case DType::kQ4_1:
      return matmul_by_rows<BlockRow<Q4_1>>(x, weight, y, tokens, rows, scratch);
    case DType::kQ8_0:
      return matmul_by_rows<BlockRow<Q8_0>>(x, weight, y, tokens, rows, scratch);
    case DType::kA8:
      return;  // no weight has it
  }
}

template <typename Format>
static void matmul_a8(const Op& op, int64_t tokens, Range rows, uint8_t* scratch) {
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  if (tokens >= kPanelWorthA8) {
    matmul_a8_by_panels<Format>(x, weight, y, tokens, rows, scratch);
  } else {
    matmul_a8_by_rows<Format>(x, weight, y, tokens, rows);
  }
}

static void matmul(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &weight = *op.in[1];
  const int64_t tokens = tokens_of(x, step);
  const Range rows = share(task, weight.n_rows, kWidth);
  if (x.dtype == DType::kF32) {
    return matmul_a32(op, tokens, rows, reinterpret_cast<float*>(task.scratch));
  }
  if (weight.dtype == DType::kQ4_0) return matmul_a8<Q4_0>(op, tokens, rows, task.scratch);
  if (weight.dtype == DType::kQ4_1) return matmul_a8<Q4_1>(op, tokens, rows, task.scratch);
  if (weight.dtype == DType::kQ8_0) return matmul_a8<Q8_0>(op, tokens, rows, task.scratch);
}

static size_t matmul_scratch(const Op& op) {
  const Tensor& x = *op.in[0];
  if (x.dtype == DType::kA8) return panel_bytes(x.n_cols);
  return kPanelRows * panel_stride(x.n_cols) * sizeof(float);  // more than sums of blocks need
}

const Kernel kMatmul = {matmul_tasks, matmul, matmul_scratch};

}  // namespace LLM_ISA
}  // namespace llm
