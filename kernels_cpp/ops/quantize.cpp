// y = x in int8 blocks of 32, exactly as core/quant/blocks/a8.py defines it. This file is compiled
// without contraction to FMA, which would round x * (1 / scale) another way.
#include <float.h>

#include "base/simd.h"
#include "ops/kernels.h"
#include "quant/a8.h"

namespace llm {
namespace LLM_ISA {

struct Target {  // of one block
  int8_t* values;
  A8Scale* scale;
  A8Offset* offset;
};

// q = 0 and a scale that is NaN or infinite too
static void quantize_non_finite(const float* x, const Target& to) {
  *to.scale = {__builtin_inff(), __builtin_nanf("")};
  for (int i = 0; i < kA8Block; ++i) {
    if (x[i] != x[i]) to.scale->scale = x[i];
    to.values[i] = 0;
  }
  *to.offset = {};
}

// A block of levels that fit int8
static void store_int8(int8_t* q, const I32 (&levels)[kA8Block / kWidth]) {
#if defined(__AVX512F__)
  for (int i = 0; i < 2; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q) + i, _mm512_cvtepi32_epi8((__m512i)levels[i]));
  }
#elif defined(__AVX2__)
  const __m256i low = _mm256_packs_epi32((__m256i)levels[0], (__m256i)levels[1]);
  const __m256i high = _mm256_packs_epi32((__m256i)levels[2], (__m256i)levels[3]);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packs keeps halves apart
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
#else
  for (int i = 0; i < kA8Block; ++i) q[i] = static_cast<int8_t>(levels[i / kWidth][i % kWidth]);
#endif
}

// Returns the sum of the levels, still to be summed over lanes. None is below -127: x >= low.
static F32 quantize_values(const float* x, float inverse, float zero, int8_t* q) {
  I32 levels[kA8Block / kWidth], total = {};
  for (int i = 0; i < kA8Block / kWidth; ++i) {
    const F32 level = round_nearest(load(x + i * kWidth) * inverse) - zero;
    levels[i] = to_i32(min(level, broadcast(127.0f)));
    total += levels[i];
  }
  store_int8(q, levels);
  return to_f32(total);
}

// At most kWidth blocks that follow each other, a lane each where numbers of a block are worked on.
static void quantize_blocks(const float* x, const Target* to, int64_t n) {
  F32 most[kWidth] = {}, least[kWidth] = {}, totals[kWidth] = {};
  F32 finite = {};  // x * 0 is NaN where x is not a finite number
  for (int64_t b = 0; b < n; ++b) {
    for (int i = 0; i < kA8Block; i += kWidth) {
      const F32 values = load(x + b * kA8Block + i);
      most[b] = max(values, most[b]);
      least[b] = min(values, least[b]);
      finite += values * 0.0f;
    }
  }
  if (!(sum(finite) == 0)) {
    if (n == 1) return quantize_non_finite(x, *to);
    for (int64_t b = 0; b < n; ++b) quantize_blocks(x + b * kA8Block, to + b, 1);
    return;
  }
  const F32 low = smallest_each(least);
  const F32 step = largest_each(most) / 254.0f - low / 254.0f;
  const I32 usable = step >= broadcast(FLT_MIN);
  const F32 scale = choose(usable, step, F32{}), inverse = choose(usable, 1.0f / step, F32{});
  const F32 zero = choose(usable, round_nearest(low * inverse) + 127.0f, F32{});
  for (int64_t b = 0; b < n; ++b) {
    totals[b] = quantize_values(x + b * kA8Block, inverse[b], zero[b], to[b].values);
  }
  const F32 total = sum_each(totals) + 32.0f * zero, sums = scale * total;
  const I32 pairs = (to_i32(zero) & 0xffff) | (to_i32(total) << 16);
  for (int64_t b = 0; b < n; ++b) {
    *to[b].scale = {scale[b], sums[b]};
    const int32_t pair = pairs[b];
    std::memcpy(to[b].offset, &pair, sizeof pair);
  }
}

static void quantize(const Op& op, const Step& step, const Task& task) {
  const Tensor &x = *op.in[0], &y = *op.out[0];
  const Range rows = share(task, rows_in_use(y, step));
  const int64_t blocks = x.n_cols / kA8Block;
  Target targets[kWidth];
  int64_t found = 0;
  const auto* from = row<const float>(x, rows.begin);
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    auto* levels = row<int8_t>(y, i);
    auto* scales = reinterpret_cast<A8Scale*>(levels + x.n_cols);
    auto* offsets = reinterpret_cast<A8Offset*>(scales + blocks);
    for (int64_t b = 0; b < blocks; ++b) {
      targets[found++] = {levels + b * kA8Block, scales + b, offsets + b};
      if (found < kWidth && (i + 1 < rows.end || b + 1 < blocks)) continue;
      quantize_blocks(from, targets, found);
      from += found * kA8Block;
      found = 0;
    }
  }
}

const Kernel kQuantize = {row_tasks, quantize, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
