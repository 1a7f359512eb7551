// y = x[T,H*d] turned by its position; half_split pairs (i, i + dim/2), else (2i, 2i + 1)
#include <string.h>

#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

struct RopeShape {
  int64_t head_dim, pairs;
  int64_t to_second;  // from the first of a pair to the second
  int64_t to_next;    // from one pair to the next
};

static RopeShape rope_shape(const Op& op) {
  const auto pairs = static_cast<int64_t>(op.params[1]) / 2;
  const bool half_split = op.params[4] != 0;
  return {static_cast<int64_t>(op.params[0]), pairs, half_split ? pairs : 1, half_split ? 1 : 2};
}

static void rope_head(const float* x, const float* cosine, const float* sine,
                      const RopeShape& shape, float* y) {
  memcpy(y, x, shape.head_dim * sizeof(float));
  for (int64_t i = 0; i < shape.pairs; ++i) {
    const int64_t first = i * shape.to_next, second = first + shape.to_second;
    y[first] = x[first] * cosine[i] - x[second] * sine[i];
    y[second] = x[first] * sine[i] + x[second] * cosine[i];
  }
}

static void rope(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const RopeShape shape = rope_shape(op);
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    const float* cosine = op.angles + t * shape.pairs;
    const float* sine = cosine + x.n_rows * shape.pairs;
    for (int64_t i = 0; i < x.n_cols; i += shape.head_dim) {
      rope_head(row<const float>(x, t) + i, cosine, sine, shape, row<float>(y, t) + i);
    }
  }
}

const Kernel kRope = {row_tasks, rope, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
