// A tile of b is copied to where it lies together, 32 KiB for the nearest cache, and meets all
// rows.
#include "study/kernels.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kDepth = 64, kColumns = 128;

void study_blocked(const StudyProduct& p, StudyRows rows) {
  alignas(64) float tile[kDepth][kColumns];
  for (int64_t i = rows.begin * p.n; i < rows.end * p.n; ++i) p.c[i] = 0;
  for (int64_t n0 = 0; n0 < p.n; n0 += kColumns) {
    const int64_t columns = smaller(kColumns, p.n - n0);
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      const int64_t depth = smaller(kDepth, p.k - k0);
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t n = 0; n < columns; ++n) tile[k][n] = p.b[(k0 + k) * p.n + n0 + n];
      }
      for (int64_t m = rows.begin; m < rows.end; ++m) {
        float* __restrict c = p.c + m * p.n + n0;
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t n = 0; n < columns; ++n) c[n] += p.a[m * p.k + k0 + k] * tile[k][n];
        }
      }
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
