// The ops of neondot, but products of many tokens in int8 by SMMLA.
#include "ops/table.h"

#include <algorithm>

#include "i8mm/panel.h"

namespace llm {
namespace LLM_ISA {

static Kernel base_matmul() { return neondot::table().kernels[static_cast<int>(OpCode::kMatmul)]; }

constexpr int64_t kPairsWorth = 6;  // tokens, from which on the other build takes panels

static bool by_pairs(const Op& op, const Step& step) {
  const Tensor& x = *op.in[0];
  return x.dtype == DType::kA8 && rows_in_use(x, step) >= kPairsWorth;
}

static int64_t matmul_tasks(const Op& op, const Step& step) {
  return base_matmul().n_tasks(op, step);
}

static void matmul(const Op& op, const Step& step, const Task& task) {
  if (!by_pairs(op, step)) return base_matmul().run(op, step, task);
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  const Range rows = share(task, y.n_cols, kTileRows);
  by_format(weight.dtype, Never(), Never(), [&](auto format) {
    matmul_a8_by_pairs<decltype(format)>(x, weight, y, rows_in_use(x, step), rows, task);
  });
}

static size_t matmul_scratch(const Op& op) {
  const Tensor& x = *op.in[0];
  const size_t base = base_matmul().scratch_bytes(op);
  return x.dtype == DType::kA8 ? std::max(base, KeptA8::bytes(x) + PairScratch::bytes(x)) : base;
}

KernelTable table() {
  KernelTable table = neondot::table();
  table.kernels[static_cast<int>(OpCode::kMatmul)] = {matmul_tasks, matmul, matmul_scratch};
  return table;
}

}  // namespace LLM_ISA
}  // namespace llm
