// The innermost loop goes along a row of c, and of b, which lies transposed: as [k,n].
#include "study/kernels.h"

namespace llm {
namespace LLM_ISA {

void study_loop_order(const StudyProduct& p, StudyRows rows) {
  for (int64_t m = rows.begin; m < rows.end; ++m) {
    float* __restrict c = p.c + m * p.n;
    for (int64_t n = 0; n < p.n; ++n) c[n] = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      for (int64_t n = 0; n < p.n; ++n) c[n] += p.a[m * p.k + k] * p.b[k * p.n + n];
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
