// The ops of build amx, but products of many tokens in float32 with weights that are floats by
// TDPBF16PS.
#include <algorithm>

#include "amx/panel_bf16.h"
#include "ops/table.h"

namespace llm {
namespace LLM_ISA {

#if defined(LLM_AMX_EMULATED)
namespace base = amxemulated;
#else
namespace base = amx;
#endif

static Kernel base_matmul() { return base::table().kernels[static_cast<int>(OpCode::kMatmul)]; }

constexpr int64_t kPanelsPerTask = 8;   // for which digits of activations come to the second cache
constexpr int64_t kTasksPerWorker = 2;  // at least, of a product that is large enough

static bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// From a whole register of tokens on; in a shared step always, so that a token's bits do not depend
// on how many there are. A stepwise step takes none: its tokens get the bits of one token's
// product.
static bool by_bf16(const Op& op, const Step& step) {
  const Tensor& x = *op.in[0];
  if (step.stepwise || op.as_alone || x.dtype != DType::kF32 || !is_float(op.in[1]->dtype))
    return false;
  return step.shared() || rows_in_use(x, step) >= kBf16Tokens;
}

// What the other products need, which may have the same activations: the digits lie behind it.
static size_t others(const Op& op) {
  return (base_matmul().scratch_bytes(op) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

static int64_t matmul_tasks(const Op& op, const Step& step) {
  if (!by_bf16(op, step)) return base_matmul().n_tasks(op, step);
  const int64_t panels = (op.out[0]->n_cols + kPanelRows - 1) / kPanelRows;
  return std::max(panels / kPanelsPerTask, std::min(panels, kTasksPerWorker * step.workers));
}

static void matmul(const Op& op, const Step& step, const Task& task) {
  if (!by_bf16(op, step)) return base_matmul().run(op, step, task);
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  const Range rows = share(task, y.n_cols, kPanelRows);
  const auto by_values = [&](auto format) {
    typedef typename decltype(format)::Value Value;
    const int64_t tokens = rows_in_use(x, step);
    matmul_a32_by_bf16<Value>(x, weight, y, tokens, rows, task.scratch + others(op), task.kept);
  };
  by_format(weight.dtype, by_values, Never(), Never());
}

static size_t matmul_scratch(const Op& op) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const bool floats = x.dtype == DType::kF32 && is_float(op.in[1]->dtype);
  return others(op) + (floats ? Bf16Scratch::bytes(x, y.n_cols) : 0);
}

KernelTable table() {
  KernelTable table = base::table();
  table.kernels[static_cast<int>(OpCode::kMatmul)] = {matmul_tasks, matmul, matmul_scratch};
  return table;
}

}  // namespace LLM_ISA
}  // namespace llm
