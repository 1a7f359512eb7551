// y[T,N] = x[T,K] . weight[N,K]^T, x float32 or a8, the weight in any format
#include <algorithm>

#include "ops/kernels.h"
#include "ops/matmul_a32.h"
#include "ops/matmul_groups.h"
#include "ops/matmul_tiles.h"
#include "ops/panel_a32.h"
#include "ops/panel_a8.h"

namespace llm {
namespace LLM_ISA {

// From how many tokens on unpacking a panel of weights pays.
constexpr int64_t kPanelWorthA32 = 3;
constexpr int64_t kPanelWorthA8 = 6;

constexpr int64_t kTaskBytes = 24 << 10;  // of weights: a microsecond of memory traffic
// At most, of a large product: so many that no worker waits for long.
constexpr int64_t kTasksPerWorker = 16;      // of one token
constexpr int64_t kPanelTasksPerWorker = 8;  // of many

enum class Way { kTiles, kGroups, kPanels };  // kTiles: or rows of floats, as they lie there

struct Wanted {
  int64_t tokens;
  Way way;
};

template <template <typename> class Has>
static bool tiles_have(const Tensor& weight) {
  bool has = false;
  by_format(
      weight.dtype, [](auto) {}, [](auto) {},
      [&](auto format) { has = Has<decltype(format)>::value; });
  return has;
}
template <typename Format>
struct HasDigits : std::bool_constant<kByDigits<Format>> {};
template <typename Format>
struct IsInBytes : std::bool_constant<kInBytes<Format::kLevels>> {};

// In a shared step a token gets the same bits however many share it. Integers give those of panels
// in groups and, where they are not bytes, as tiles. Floats do not: the few rows of logits are
// always digits, where weights have them, all others panels.
static Wanted wanted_of(const Op& op, const Step& step) {
  const Tensor &x = *op.in[0], &weight = *op.in[1];
  const int64_t tokens = rows_in_use(x, step);
  if (x.dtype == DType::kF32) {
    const bool digits = tiles_have<HasDigits>(weight);
    if (step.shared()) {
      return {tokens, digits && x.rows == Rows::kOutputs ? Way::kGroups : Way::kPanels};
    }
    if (tokens >= kPanelWorthA32) return {tokens, Way::kPanels};
    return {tokens, digits ? Way::kGroups : Way::kTiles};
  }
  if (step.shared() && tiles_have<IsInBytes>(weight)) {
    return {tokens, tokens < kGroupsWorth ? Way::kGroups : Way::kPanels};
  }
  return {tokens, tokens < kPanelWorthA8 ? Way::kTiles : Way::kPanels};
}

// Rows that one task must take whole.
static int64_t row_granule(const Op& op, Way way) {
  const bool floats = op.in[0]->dtype == DType::kF32, panels = way == Way::kPanels;
  if (floats && panels) return kPanelRows;
  if (!floats && panels && kPanelRowsA8 > kTileRows) return kPanelRowsA8;
  return in_tiles(*op.in[1]) ? kTileRows : kWidth;
}

static int64_t matmul_tasks(const Op& op, const Step& step) {
  const Tensor& weight = *op.in[1];
  const int64_t bytes = weight.n_rows * row_bytes(weight.dtype, weight.n_cols);
  const auto [tokens, way] = wanted_of(op, step);
  const int64_t granule = row_granule(op, way);
  const int64_t panels = (weight.n_rows + granule - 1) / granule;
  int64_t tasks = bytes * tokens / kTaskBytes;
  const int64_t most = (tokens > 1 ? kPanelTasksPerWorker : kTasksPerWorker) * step.workers;
  if (tasks > most) tasks = most;
  if (tasks > panels) tasks = panels;
  return tasks < 1 ? 1 : tasks;
}

static void matmul_a32(const Op& op, const Wanted& wanted, Range rows, const Task& task) {
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  const auto [tokens, way] = wanted;
  auto* floats = reinterpret_cast<float*>(task.scratch);
  if (way == Way::kPanels) return matmul_a32_by_panels(x, weight, y, tokens, rows, floats);
  const auto by_tiles = [&, tokens = tokens](auto format) {
    typedef decltype(format) Format;
    if constexpr (kByDigits<Format>) {
      matmul_by_digits<Format>(x, weight, y, tokens, rows, task.scratch, task.kept);
    } else {
      matmul_a32_by_tiles<Format>(x, weight, y, tokens, rows, floats);
    }
  };
  by_format(
      weight.dtype,
      [&, tokens = tokens](auto format) {
        matmul_by_rows<decltype(format)>(x, weight, y, tokens, rows);
      },
      Never(), by_tiles);
}

// Groups lie behind them: each keeps its own.
static size_t panel_scratch(const Tensor& x) {
  return (PanelScratch::bytes(x) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

template <typename Format>
static void tiles_a8(const Op& op, const Wanted& wanted, Range rows, const Task& task) {
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  const int64_t tokens = wanted.tokens;
  if (wanted.way == Way::kPanels)
    return matmul_a8_by_panels<Format>(x, weight, y, tokens, rows, task);
  if constexpr (kInBytes<Format::kLevels>) {
    if (wanted.way == Way::kGroups) {
      uint8_t* const memory = task.scratch + panel_scratch(x);
      return matmul_a8_by_groups<Format>(x, weight, y, tokens, rows, memory, task.kept);
    }
  }
  matmul_a8_by_tiles<Format>(x, weight, y, tokens, rows);
}

static void matmul_a8(const Op& op, const Wanted& wanted, Range rows, const Task& task) {
  by_format(op.in[1]->dtype, Never(), Never(),
            [&](auto format) { tiles_a8<decltype(format)>(op, wanted, rows, task); });
}

static void matmul(const Op& op, const Step& step, const Task& task) {
  const Wanted wanted = wanted_of(op, step);
  const Range rows = share(task, op.in[1]->n_rows, row_granule(op, wanted.way));
  if (op.in[0]->dtype == DType::kF32) return matmul_a32(op, wanted, rows, task);
  matmul_a8(op, wanted, rows, task);
}

static size_t matmul_scratch(const Op& op) {
  const Tensor& x = *op.in[0];
  if (x.dtype == DType::kA8) {
    return panel_scratch(x) + (op.segments > 0 ? GroupScratch::a8_bytes(x) : 0);
  }
  const size_t sums = sizeof(float) * kTileTokens * kMaxScales * (x.n_cols / 32);
  const size_t few = std::max(sums, GroupScratch::digit_bytes(x));
  return std::max(few, kPanelBytesA32);
}

const Kernel kMatmul = {matmul_tasks, matmul, matmul_scratch};

}  // namespace LLM_ISA
}  // namespace llm
