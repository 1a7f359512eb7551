// y = x[T,H*d] rotated by its position; half_split pairs (i, i + dim/2), else (2i, 2i + 1)
#include "base/simd.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

struct RopeShape {
  int64_t head_dim, pairs;
  int64_t to_second;  // from the first of a pair to the second
  int64_t to_next;    // from one pair to the next
};

static RopeShape rope_shape(const Op& op) {
  const RopeParams& params = op.params.rope;
  const int64_t pairs = params.rotary_dim / 2;
  return {params.head_dim, pairs, params.half_split ? pairs : 1, params.half_split ? 1 : 2};
}

// Two vectors of pairs side by side -> their firsts and seconds, and back
template <int... i>
static void unzip(F32& a, F32& b, std::integer_sequence<int, i...>) {
  const F32 first = shuffle<2 * i...>(a, b);
  b = shuffle<2 * i + 1 ...>(a, b);
  a = first;
}
template <int... i>
static void zip(F32& a, F32& b, std::integer_sequence<int, i...>) {
  const F32 low = shuffle<i % 2 * kWidth + i / 2 ...>(a, b);
  b = shuffle<i % 2 * kWidth + kWidth / 2 + i / 2 ...>(a, b);
  a = low;
}

// Pairs i .. i + kWidth of a head
static void rope_pairs(const float* x, const float* cosine, const float* sine, int64_t i,
                       const RopeShape& shape, float* y) {
  const std::make_integer_sequence<int, kWidth> lanes;
  const bool apart = shape.to_next == 1;
  const int64_t first = i * shape.to_next, second = first + (apart ? shape.to_second : kWidth);
  F32 a = load(x + first), b = load(x + second);
  if (!apart) unzip(a, b, lanes);
  const F32 c = load(cosine + i), s = load(sine + i);
  F32 rotated_a = a * c - b * s, rotated_b = a * s + b * c;
  if (!apart) zip(rotated_a, rotated_b, lanes);
  store(y + first, rotated_a);
  store(y + second, rotated_b);
}

static void rope_head(const float* x, const float* cosine, const float* sine, float temperature,
                      const RopeShape& shape, float* y) {
  const int64_t rotated = 2 * shape.pairs;
  int64_t i = 0;
  for (; i + kWidth <= shape.pairs; i += kWidth) rope_pairs(x, cosine, sine, i, shape, y);
  for (; i < shape.pairs; ++i) {
    const int64_t first = i * shape.to_next, second = first + shape.to_second;
    const float a = x[first], b = x[second];
    y[first] = a * cosine[i] - b * sine[i];
    y[second] = a * sine[i] + b * cosine[i];
  }
  for (int64_t c = rotated; c < shape.head_dim; ++c) y[c] = x[c] * temperature;
}

static void rope(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const RopeShape shape = rope_shape(op);
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    const float* cosine = op.angles + t * shape.pairs;
    const float* sine = cosine + x.n_rows * shape.pairs;
    const float temperature = op.angles[2 * x.n_rows * shape.pairs + t];
    for (int64_t i = 0; i < x.n_cols; i += shape.head_dim) {
      rope_head(row<const float>(x, t) + i, cosine, sine, temperature, shape, row<float>(y, t) + i);
    }
  }
}

const Kernel kRope = {row_tasks, rope, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
