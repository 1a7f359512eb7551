// y[t] = sum over j < taps of weight[:,j] * x[t - taps + 1 + j], a column by itself. Before the
// tokens of a sequence stand the taps - 1 rows of its state, which then has the last ones.
// Sequences of a step go one after the other: one may go on from what the one before has left.
#include <algorithm>
#include <cstring>

#include "base/simd.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kConvTile = 256;  // columns whose taps stay in the processor's first cache
constexpr int64_t kMostTaps = 16;   // as plan/check.cpp says

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

// y of kWidth columns, or the first n; weight: [taps][kConvTile]
static F32 convolved(const float* const* rows, int64_t taps, int64_t column, int64_t n,
                     const float* weight) {
  F32 sum = {};
  for (int64_t j = 0; j < taps; ++j) {
    if (rows[j] == nullptr) continue;
    const float* const at = rows[j] + column;
    sum += (n == kWidth ? load(at) : load_part(at, n)) * load(weight + j * kConvTile);
  }
  return sum;
}

// kConvTile columns, or fewer, of all tokens; by_tap: [taps][kConvTile]
static void convolve_tile(const Op& op, const Segment& segment, const ConvRows& rows, Range columns,
                          float* by_tap) {
  const auto* weight = row<const float>(*op.in[1], 0);
  for (int64_t j = 0; j < rows.taps; ++j) {
    for (int64_t c = columns.begin; c < columns.end; ++c) {
      by_tap[j * kConvTile + c - columns.begin] = weight[c * rows.taps + j];
    }
  }
  const float* read[kMostTaps];
  for (int64_t t = 0; t < segment.count; ++t) {
    for (int64_t j = 0; j < rows.taps; ++j) read[j] = rows.at(t - rows.taps + 1 + j);
    float* const y = row<float>(*op.out[0], segment.first + t);
    for (int64_t c = columns.begin; c < columns.end; c += kWidth) {
      const int64_t n = columns.end - c < kWidth ? columns.end - c : kWidth;
      const F32 sum = convolved(read, rows.taps, c, n, by_tap + c - columns.begin);
      if (n == kWidth) {
        store(y + c, sum);
      } else {
        store_part(y + c, sum, n);
      }
    }
  }
}

static void convolve(const Op& op, const Segment& segment, Range columns, float* by_tap) {
  const Tensor &x = *op.in[0], &state = *op.out[1];
  const int64_t taps = op.params.causal_conv.taps, kept = taps - 1;
  const float* const before =
      segment.state < 0 ? nullptr : row<const float>(state, segment.state * kept);
  const ConvRows rows = {before, row<const float>(x, segment.first), taps, x.n_cols};
  for (int64_t c = columns.begin; c < columns.end; c += kConvTile) {
    convolve_tile(op, segment, rows, {c, std::min(c + kConvTile, columns.end)}, by_tap);
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
  return op.params.causal_conv.taps * kConvTile * sizeof(float);
}

const Kernel kCausalConv = {causal_conv_tasks, causal_conv, causal_conv_scratch};

}  // namespace LLM_ISA
}  // namespace llm
