// As the formula says it: one output after the other.
#include "study/kernels.h"

namespace llm {
namespace LLM_ISA {

void study_naive(const StudyProduct& p, StudyRows rows) {
  for (int64_t m = rows.begin; m < rows.end; ++m) {
    for (int64_t n = 0; n < p.n; ++n) {
      float sum = 0;
      for (int64_t k = 0; k < p.k; ++k) sum += p.a[m * p.k + k] * p.b[n * p.k + k];
      p.c[m * p.n + n] = sum;
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
