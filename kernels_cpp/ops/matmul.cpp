// y[T,N] = x[T,K] . weight[N,K]^T, x float32 or a8, the weight in any format; N and K may be the
// first rows and columns of a larger one
#include <algorithm>

#include "ops/kernels.h"
#include "ops/matmul_a32.h"
#include "ops/matmul_dots.h"
#include "ops/matmul_tiles.h"
#include "ops/panel_a32.h"
#include "ops/panel_a8.h"
#include "ops/product.h"
#include "ops/segments.h"

namespace llm {
namespace LLM_ISA {

// From how many tokens on unpacking a panel of weights pays, as kPanelWorthA32.
constexpr int64_t kPanelWorthDots = kWidth > 8 ? 32 : 16;  // where products by dots do as well
constexpr int64_t kPanelWorthA8 = kTileTokensA8 > 4 ? 9 : 6;

// Whether floats meet this weight as digits, however many tokens of whatever sequences there are.
static bool has_digits_for_all(const Tensor& weight) {
  bool has = false;
  const auto none = [](auto) {};
  by_format(weight.dtype, none, none, [&](auto format) { has = kDigitsForAll<decltype(format)>; });
  return has;
}

// Where whole sequences are computed at once, no token's bits need to stay: the quickest way is
// taken for as many as there are.
static Wanted wanted_of_whole(int64_t tokens, const Tensor& weight) {
  if (in_tiles(weight)) return {tokens, tokens >= kPanelWorthA32, false};
  const bool by_panels = tokens >= kPanelWorthDots;
  return {tokens, by_panels, tokens >= kPanelWorthA32 && !by_panels};
}

// Integers give the same as tiles and as panels, in any step. Floats do not: where a token is to
// get the bits that it would get alone, they are multiplied as those of one token.
static Wanted wanted_of(const Op& op, const Step& step) {
  const Tensor& x = *op.in[0];
  const int64_t tokens = rows_in_use(x, step);
  if (x.dtype == DType::kA8) return wanted_of_integers(tokens);
  if (op.whole_sequences) return wanted_of_whole(tokens, *op.in[1]);
  if (op.as_alone) return {tokens, false, false};
  if (step.shared()) return {tokens, false, false};  // digits, or see parted
  return {tokens, tokens >= kPanelWorthA32, false};
}

Wanted wanted_of_integers(int64_t tokens) { return {tokens, tokens >= kPanelWorthA8, false}; }

// Rows that one task must take whole.
int64_t row_granule(const Op& op, bool by_panels) {
  const bool floats = op.in[0]->dtype == DType::kF32;
  if (floats && by_panels) return kPanelRows;
  if (!floats && by_panels && kPanelRowsA8 > kTileRows) return kPanelRowsA8;
  return in_tiles(*op.in[1]) ? kTileRows : kWidth;
}

static int64_t matmul_tasks(const Op& op, const Step& step) {
  const int64_t n_rows = op.out[0]->n_cols;
  const int64_t bytes = n_rows * row_bytes(op.in[1]->dtype, op.in[0]->n_cols);
  const Wanted wanted = wanted_of(op, step);
  const int64_t tokens = wanted.tokens, granule = row_granule(op, wanted.by_panels);
  const int64_t panels = (n_rows + granule - 1) / granule;
  int64_t tasks = bytes * tokens / kTaskBytes;
  const int64_t most = (tokens > 1 ? kPanelTasksPerWorker : kTasksPerWorker) * step.workers;
  if (tasks > most) tasks = most;
  if (tasks > panels) tasks = panels;
  return tasks < 1 ? 1 : tasks;
}

// Digits lie behind it, so that what is kept of them stays.
static size_t float_scratch(const Tensor& x) {
  const size_t sums = sizeof(float) * kTileTokens * kMaxScales * static_cast<size_t>(x.n_cols / 32);
  return (std::max(sums, kPanelBytesA32) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

static void matmul_a32(const Op& op, const Wanted& wanted, Range rows, const Task& task) {
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  const int64_t tokens = wanted.tokens;
  auto* floats = reinterpret_cast<float*>(task.scratch);  // of a panel, or of sums
  if (wanted.by_panels) return matmul_a32_by_panels(x, weight, y, tokens, rows, floats);
  const auto by_rows = [&](auto format) {
    const auto by_values =
        wanted.by_dots ? matmul_by_dots<decltype(format)> : matmul_by_rows<decltype(format)>;
    by_values(x, weight, y, tokens, rows);
  };
  const auto by_tiles = [&](auto format) {
    typedef decltype(format) Format;
    if constexpr (kByDigits<Format>) {
      const DigitScratch scratch(x, task.scratch + float_scratch(x));
      matmul_by_digits<Format>(x, weight, y, tokens, rows, scratch, task.kept);
    } else {
      matmul_a32_by_tiles<Format>(x, weight, y, tokens, rows, floats);
    }
  };
  by_format(weight.dtype, by_rows, Never(), by_tiles);
}

template <typename Format>
static void tiles_a8(const Op& op, const Wanted& wanted, Range rows, const Task& task) {
  const Tensor &x = *op.in[0], &weight = *op.in[1], &y = *op.out[0];
  if (wanted.by_panels) {
    matmul_a8_by_panels<Format>(x, weight, y, wanted.tokens, rows, task);
  } else {
    matmul_a8_by_tiles<Format>(x, weight, y, wanted.tokens, rows, task);
  }
}

static void matmul_a8(const Op& op, const Wanted& wanted, Range rows, const Task& task) {
  by_format(op.in[1]->dtype, Never(), Never(),
            [&](auto format) { tiles_a8<decltype(format)>(op, wanted, rows, task); });
}

void multiply(const Op& op, const Wanted& wanted, Range rows, const Task& task) {
  if (op.in[0]->dtype == DType::kF32) return matmul_a32(op, wanted, rows, task);
  matmul_a8(op, wanted, rows, task);
}

size_t product_scratch(const Tensor& x) {
  if (x.dtype == DType::kA8) return KeptA8::bytes(x) + panel_bytes(x.n_cols);
  return float_scratch(x) + DigitScratch::bytes(x);
}

// Whether each sequence of a shared step has the products that it would have alone there: some may
// be in panels. Digits give a token the same bits in any case.
static bool parted(const Op& op, const Step& step) {
  if (step.n_segments == step.n_tokens || op.as_alone || op.whole_sequences) return false;
  const bool floats = op.in[0]->dtype == DType::kF32 && op.in[0]->rows != Rows::kFixed;
  return step.shared() && floats && !has_digits_for_all(*op.in[1]);
}

static void matmul(const Op& op, const Step& step, const Task& task) {
  if (parted(op, step)) {
    const auto by_panels = [](int64_t tokens) { return tokens >= kPanelWorthA32; };
    return by_segments(*op.in[0], step, by_panels, [&](int64_t first, int64_t rows, bool panels) {
      const RowsOfOp part(op, step, first, rows, !panels);
      matmul(part.op, part.step, task);
    });
  }
  const Wanted wanted = wanted_of(op, step);
  multiply(op, wanted, share(task, op.out[0]->n_cols, row_granule(op, wanted.by_panels)), task);
}

static size_t matmul_scratch(const Op& op) { return product_scratch(*op.in[0]); }

const Kernel kMatmul = {matmul_tasks, matmul, matmul_scratch};

}  // namespace LLM_ISA
}  // namespace llm
