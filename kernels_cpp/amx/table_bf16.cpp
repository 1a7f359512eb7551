// The ops of build amx, but products of many tokens in float32 with weights that are floats by
// TDPBF16PS.
#include <algorithm>

#include "amx/panel_bf16.h"
#include "ops/segments.h"
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

// From a whole register of tokens on, of one sequence where several share a step.
static bool may_be_by_bf16(const Op& op, const Step& step) {
  const Tensor& x = *op.in[0];
  const bool floats = x.dtype == DType::kF32 && is_float(op.in[1]->dtype);
  return floats && !op.as_alone && rows_in_use(x, step) >= kBf16Tokens;
}

// How the tokens of a sequence meet the weights, by how many they are.
enum class Product { kByRows, kByPanels, kByBf16 };

static Product product_of(int64_t tokens) {
  if (tokens >= kBf16Tokens) return Product::kByBf16;
  return tokens >= kPanelWorthA32 ? Product::kByPanels : Product::kByRows;
}

// What the other products need, which may have the same activations: the digits lie behind it.
static size_t others(const Op& op) {
  return (base_matmul().scratch_bytes(op) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

static int64_t matmul_tasks(const Op& op, const Step& step) {
  if (!may_be_by_bf16(op, step)) return base_matmul().n_tasks(op, step);
  const int64_t panels = (op.out[0]->n_cols + kBf16Rows - 1) / kBf16Rows;
  return std::max(panels / kPanelsPerTask, std::min(panels, kTasksPerWorker * step.workers));
}

static void matmul_by_bf16(const Op& op, const Task& task, int64_t tokens) {
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  const Range rows = share(task, y.n_cols, kBf16Rows);
  const auto by_values = [&](auto format) {
    typedef typename decltype(format)::Value Value;
    matmul_a32_by_bf16<Value>(x, weight, y, tokens, rows, task.scratch + others(op), task.kept);
  };
  by_format(weight.dtype, by_values, Never(), Never());
}

// The digits of the first sequences by BF16 are kept.
static void matmul_of_segments(const Op& op, const Step& step, const Task& task) {
  Task now = task;
  const auto run = [&](int64_t first, int64_t rows, Product product) {
    const RowsOfOp part(op, step, first, rows, product == Product::kByRows);
    if (product != Product::kByBf16) return base_matmul().run(part.op, part.step, task);
    matmul_by_bf16(part.op, now, rows);
    now.kept = 0;
  };
  by_segments(*op.in[0], step, product_of, run);
}

static void matmul(const Op& op, const Step& step, const Task& task) {
  if (!may_be_by_bf16(op, step)) return base_matmul().run(op, step, task);
  const bool parted = step.shared() && op.in[0]->rows != Rows::kFixed;
  if (parted) return matmul_of_segments(op, step, task);
  matmul_by_bf16(op, task, rows_in_use(*op.in[0], step));
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
