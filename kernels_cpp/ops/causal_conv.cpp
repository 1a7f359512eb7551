// y[t] = sum over j < taps of weight[:,j] * x[t - taps + 1 + j], a column by itself. Before the
// tokens of a sequence stand the taps - 1 rows of its state, which then has the last ones.
// Sequences of a step go one after the other: one may go on from what the one before has left.
#include <cstring>

#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

// Of some columns: the rows that a sequence's tokens follow, and those of its tokens.
struct ConvRows {
  const float* before;  // [taps - 1][columns of all]; null: zeros
  const float* x;       // [tokens][columns of all]
  int64_t taps, stride;

  // Row t of both, -(taps - 1) being the first of the state; null where that is zeros
  const float* at(int64_t t) const {
    if (t >= 0) return x + t * stride;
    return before == nullptr ? nullptr : before + (t + taps - 1) * stride;
  }
};

// y of kWidth columns, or the first n; weight: [taps][kWidth]
static F32 convolved(const ConvRows& rows, int64_t t, int64_t column, int64_t n,
                     const float* weight) {
  F32 sum = {};
  for (int64_t j = 0; j < rows.taps; ++j) {
    const float* row = rows.at(t - rows.taps + 1 + j);
    if (row == nullptr) continue;
    sum +=
        (n == kWidth ? load(row + column) : load_part(row + column, n)) * load(weight + j * kWidth);
  }
  return sum;
}

static void convolve(const Op& op, const Segment& segment, Range columns, float* by_tap) {
  const Tensor &x = *op.in[0], &y = *op.out[0], &state = *op.out[1];
  const int64_t taps = op.params.causal_conv.taps, kept = taps - 1;
  const float* const before =
      segment.state < 0 ? nullptr : row<const float>(state, segment.state * kept);
  const ConvRows rows = {before, row<const float>(x, segment.first), taps, x.n_cols};
  const auto* weight = row<const float>(*op.in[1], 0);
  for (int64_t c = columns.begin; c < columns.end; c += kWidth) {
    const int64_t n = columns.end - c < kWidth ? columns.end - c : kWidth;
    for (int64_t i = 0; i < n * taps; ++i) {
      by_tap[i % taps * kWidth + i / taps] = weight[c * taps + i];
    }
    for (int64_t t = 0; t < segment.count; ++t) {
      const F32 sum = convolved(rows, t, c, n, by_tap);
      store_part(row<float>(y, segment.first + t) + c, sum, n);
    }
  }
  const size_t bytes = (columns.end - columns.begin) * sizeof(float);
  for (int64_t i = 0; i < kept; ++i) {  // the rows below are read before they are written over
    const float* from = rows.at(segment.count - kept + i);
    float* const to = row<float>(state, segment.left * kept + i) + columns.begin;
    if (from == nullptr) {
      std::memset(to, 0, bytes);
    } else {
      std::memmove(to, from + columns.begin, bytes);
    }
  }
}

static void causal_conv(const Op& op, const Step& step, const Task& task) {
  const Range columns = share(task, op.in[0]->n_cols, kWidth);
  for (int64_t i = 0; i < step.parts(); ++i)
    convolve(op, step.part(i), columns, reinterpret_cast<float*>(task.scratch));
}

static int64_t causal_conv_tasks(const Op& op, const Step& step) {
  return step.n_tokens * op.in[0]->n_cols < kValuesWorthSharing ? 1 : step.workers;
}

static size_t causal_conv_scratch(const Op& op) {
  return op.params.causal_conv.taps * kWidth * sizeof(float);
}

const Kernel kCausalConv = {causal_conv_tasks, causal_conv, causal_conv_scratch};

}  // namespace LLM_ISA
}  // namespace llm
