// Ops on the rows of some sequences of a shared step: what is made of a sequence may depend on how
// many rows it has there, and not on the others.
#pragma once

#include "plan/op.h"

namespace llm {
namespace LLM_ISA {

// Where the rows of x end, one a token or one an output, that have the sequence of row `first`.
inline int64_t segment_end(const Tensor& x, const Step& step, int64_t first) {
  const auto segment_of = [&](int64_t i) {
    return step.segments[x.rows == Rows::kOutputs ? step.output(i) : i];
  };
  int64_t end = first + 1;
  while (end < rows_in_use(x, step) && segment_of(end) == segment_of(first)) ++end;
  return end;
}

// Calls run(first, rows, kind) for neighbours in x of one kind_of(rows of a sequence).
template <typename KindOf, typename Run>
inline void by_segments(const Tensor& x, const Step& step, const KindOf& kind_of, const Run& run) {
  const int64_t rows = rows_in_use(x, step);
  for (int64_t first = 0, end = 0; first < rows; first = end) {
    end = segment_end(x, step, first);
    const auto kind = kind_of(end - first);
    while (end < rows) {
      const int64_t next = segment_end(x, step, end);
      if (kind_of(next - end) != kind) break;
      end = next;
    }
    run(first, end - first, kind);
  }
}

// An op with one input and one output that have these rows alone, in a step of one sequence.
struct RowsOfOp {
  Tensor x, y;
  Op op;
  Step step;

  RowsOfOp(const Op& of, const Step& in, int64_t first, int64_t rows, bool as_alone)
      : x(rows_of(*of.in[0], first, rows)), y(rows_of(*of.out[0], first, rows)), op(of), step(in) {
    op.in[0] = &x;
    op.out[0] = &y;
    op.as_alone = as_alone;
    step.n_segments = 0;
  }
  RowsOfOp(const RowsOfOp&) = delete;  // `op` has pointers to `x` and `y`

  static Tensor rows_of(const Tensor& tensor, int64_t first, int64_t rows) {
    Tensor some = tensor;
    some.data += first * row_bytes(tensor);
    some.rows = Rows::kFixed;
    some.per_token = 1;
    some.n_rows = rows;
    return some;
  }
};

}  // namespace LLM_ISA
}  // namespace llm
