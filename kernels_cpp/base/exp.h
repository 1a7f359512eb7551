// e^x on vectors, to 1e-7 relative, and what is made of it.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

// x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by its Taylor polynomial of degree 7: the first term
// left out, r^8 / 40320, is below 6e-9. Results saturate at e^-87 and e^88; NaN stays NaN.
//
// Each operation waits for the one before, so vectors that are there together take them in turns.
template <int kVectors>
__attribute__((always_inline)) inline void exp(F32 (&x)[kVectors]) {
  const auto each = [](const auto& step) {
    for (int v = 0; v < kVectors; ++v) step(v);
  };
  F32 n[kVectors], p[kVectors];
  each([&](int v) { x[v] = min(broadcast(88.0f), max(broadcast(-87.0f), x[v])); });
  each([&](int v) { n[v] = round_nearest(x[v] * 1.44269504f); });
  each([&](int v) { x[v] -= n[v] * 0.693359375f; });  // ln 2 in two parts, the first ends in zeros
  each([&](int v) { x[v] -= n[v] * -2.12194440e-4f; });
  each([&](int v) { p[v] = x[v] * (1.0f / 5040) + 1.0f / 720; });
  for (const float term : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    each([&](int v) { p[v] = p[v] * x[v] + term; });
  }
  // times 2^n
  each([&](int v) { x[v] = from_bits(bits_of(p[v]) + ((U32)to_i32(n[v]) << 23)); });
}

inline F32 exp(F32 x) {
  F32 alone[] = {x};
  exp(alone);
  return alone[0];
}

// Within 0.625 by a polynomial (Moshier, Cephes), as 1 - 2 / (e^2x + 1) loses the digits of small
// results. NaN stays NaN.
inline F32 tanh(F32 x) {
  const F32 s = x * x;
  F32 p = s * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  return choose(abs(x) < 0.625f, x + x * s * p, 1.0f - 2.0f / (exp(x * 2.0f) + 1.0f));
}

inline F32 sigmoid(F32 x) { return 1.0f / (exp(-x) + 1.0f); }

inline F32 silu(F32 x) { return x / (exp(-x) + 1.0f); }

// By its tanh approximation: (1 + tanh z) / 2 = 1 / (1 + e^-2z)
inline F32 gelu(F32 x) {
  const F32 z = (x + x * x * x * 0.044715f) * 0.7978845608f;
  return x / (exp(z * -2.0f) + 1.0f);
}

// As it is defined, by half of 1 - erf of x's magnitude (Abramowitz and Stegun 7.1.26): within
// 1e-7 * |x|, and negative values lose no digits.
inline F32 gelu_erf(F32 x) {
  const F32 z = abs(x) * 0.7071067812f;
  const F32 t = 1.0f / (z * 0.3275911f + 1.0f);
  F32 p = t * 1.061405429f - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = (p * t + 0.254829592f) * t;
  const F32 rest = p * exp(-(z * z)) * 0.5f;
  return choose(x < 0.0f, x * rest, x - x * rest);
}

}  // namespace LLM_ISA
}  // namespace llm
