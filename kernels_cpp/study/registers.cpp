// The tile of b as in blocked.cpp; 4 rows by two vectors of c are summed in registers meanwhile.
#include "study/kernels.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kDepth = 64, kColumns = 128;
constexpr int64_t kRows = 4, kVectors = 2, kAcross = kVectors * kWidth;

void study_registers(const StudyProduct& p, StudyRows rows) {
  alignas(64) float tile[kDepth][kColumns] = {};
  for (int64_t i = rows.begin * p.n; i < rows.end * p.n; ++i) p.c[i] = 0;
  for (int64_t n0 = 0; n0 < p.n; n0 += kColumns) {
    const int64_t columns = smaller(kColumns, p.n - n0);
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      const int64_t depth = smaller(kDepth, p.k - k0);
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t n = 0; n < columns; ++n) tile[k][n] = p.b[(k0 + k) * p.n + n0 + n];
      }
      for (int64_t m = rows.begin; m < rows.end; m += kRows) {
        const float* a[kRows];  // the last row again where there are fewer
        for (int64_t i = 0; i < kRows; ++i) a[i] = p.a + smaller(m + i, rows.end - 1) * p.k + k0;
        for (int64_t n = 0; n < columns; n += kAcross) {
          F32 sums[kRows][kVectors] = {};
          for (int64_t k = 0; k < depth; ++k) {
            for (int64_t v = 0; v < kVectors; ++v) {
              const F32 b = load(&tile[k][n + v * kWidth]);
              for (int64_t i = 0; i < kRows; ++i) sums[i][v] += a[i][k] * b;
            }
          }
          for (int64_t i = 0; i < smaller(kRows, rows.end - m); ++i) {
            for (int64_t v = 0; v < kVectors; ++v) {
              const int64_t at = n + v * kWidth;
              add_lanes(p.c + (m + i) * p.n + n0 + at, sums[i][v], columns - at);
            }
          }
        }
      }
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
