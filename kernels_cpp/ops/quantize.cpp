// y = x in int8 blocks of 32, exactly as core/quant/a8.py defines it. This file is compiled
// without contraction to FMA, which would round x * (1 / scale) another way.
#include <float.h>

#include "base/simd.h"
#include "ops/kernels.h"
#include "quant/a8.h"

namespace llm {
namespace LLM_ISA {

struct Block {
  float scale, sum;
  A8Offset offset;
};

// q = 0 and a scale that is NaN or infinite too
static Block quantize_non_finite(const float* x, int8_t* q) {
  float scale = __builtin_inff();
  for (int i = 0; i < kA8Block; ++i) {
    if (x[i] != x[i]) scale = x[i];
    q[i] = 0;
  }
  return {scale, __builtin_nanf(""), {}};
}

static void store_int8(int8_t* q, I32 levels) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8((__m512i)levels));
#else
  for (int i = 0; i < kWidth; ++i) q[i] = static_cast<int8_t>(levels[i]);
#endif
}

static Block quantize_block(const float* x, int8_t* q) {
  F32 most = {}, least = {}, finite = {};  // finite: x * 0 is NaN where x is not a finite number
  for (int i = 0; i < kA8Block; i += kWidth) {
    const F32 values = load(x + i);
    most = max(values, most);
    least = min(values, least);
    finite += values * 0.0f;
  }
  if (!(sum(finite) == 0)) return quantize_non_finite(x, q);
  const float low = -largest(-least);
  const float scale = largest(most) / 254.0f - low / 254.0f;
  if (scale < FLT_MIN) {
    std::memset(q, 0, kA8Block);
    return {};
  }
  const float inverse = 1.0f / scale;
  const F32 zero = round_nearest(broadcast(low * inverse)) + 127.0f;
  I32 total = {};
  for (int i = 0; i < kA8Block; i += kWidth) {
    const F32 level = round_nearest(load(x + i) * inverse) - zero;  // not below -127: x >= low
    const I32 whole = to_i32(min(level, broadcast(127.0f)));
    total += whole;
    store_int8(q + i, whole);
  }
  const float all = sum(to_f32(total)) + 32 * zero[0];
  return {scale, scale * all, {static_cast<int16_t>(zero[0]), static_cast<int16_t>(all)}};
}

static void quantize(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const int64_t blocks = x.n_cols / kA8Block;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    const auto* values = row<const float>(x, i);
    auto* levels = row<int8_t>(y, i);
    auto* scales = reinterpret_cast<float*>(levels + x.n_cols);
    auto* offsets = reinterpret_cast<A8Offset*>(scales + 2 * blocks);
    for (int64_t b = 0; b < blocks; ++b) {
      const Block block = quantize_block(values + b * kA8Block, levels + b * kA8Block);
      scales[b] = block.scale;
      scales[blocks + b] = block.sum;
      offsets[b] = block.offset;
    }
  }
}

const Kernel kQuantize = {row_tasks, quantize, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
