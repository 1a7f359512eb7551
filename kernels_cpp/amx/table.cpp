// The ops of avx512vnni, but products of many tokens in int8 by tile registers.
#include "ops/table.h"

#include <algorithm>

#include "amx/panel_a8.h"

namespace llm {
namespace LLM_ISA {

static Kernel base_matmul() {
  return avx512vnni::table().kernels[static_cast<int>(OpCode::kMatmul)];
}

// From a whole register of tokens on. There the other build takes panels too, in any step and of
// any weight, so that tasks and their rows stay as it cuts them.
static bool by_registers(const Op& op, const Step& step) {
  const Tensor& x = *op.in[0];
  return x.dtype == DType::kA8 && rows_in_use(x, step) >= kAmxTokens;
}

static int64_t matmul_tasks(const Op& op, const Step& step) {
  return base_matmul().n_tasks(op, step);
}

static void matmul(const Op& op, const Step& step, const Task& task) {
  if (!by_registers(op, step)) return base_matmul().run(op, step, task);
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  const Range rows = share(task, y.n_cols, kPanelRowsA8);
  by_format(weight.dtype, Never(), Never(), [&](auto format) {
    matmul_a8_by_amx<decltype(format)>(x, weight, y, rows_in_use(x, step), rows, task);
  });
}

static size_t matmul_scratch(const Op& op) {
  const Tensor& x = *op.in[0];
  const size_t base = base_matmul().scratch_bytes(op);
  if (x.dtype != DType::kA8) return base;
  return std::max(base, KeptA8::bytes(x) + panel_bytes(x.n_cols) + kAmxBytes);
}

KernelTable table() {
  KernelTable table = avx512vnni::table();
  table.kernels[static_cast<int>(OpCode::kMatmul)] = {matmul_tasks, matmul, matmul_scratch};
  return table;
}

}  // namespace LLM_ISA
}  // namespace llm
