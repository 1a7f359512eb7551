// One product of float32 matrices in several forms, each as the file of its name says it; what
// makes one faster than the one before is what the kernel study shows (core/metrics/kernel_study/).
#pragma once

#include <cstdint>

namespace llm {

// c[m,n] = a[m,k] . b^T; b lies as [n,k] in `naive`, and transposed, as [k,n], in all other forms.
struct StudyProduct {
  const float* a;
  const float* b;
  float* c;
  int64_t m, n, k;
};

struct StudyRows {  // of c
  int64_t begin, end;
};

struct StudyTable {
  void (*naive)(const StudyProduct&, StudyRows);
  void (*loop_order)(const StudyProduct&, StudyRows);
  void (*blocked)(const StudyProduct&, StudyRows);
  void (*registers)(const StudyProduct&, StudyRows);
  // Runs `rounds` rounds of multiply-adds that need no memory; their sum, so that none is left out.
  float (*multiply_adds)(int64_t rounds);
  int64_t adds_a_round;
};

#define LLM_DECLARE_STUDY(isa)                    \
  namespace isa {                                 \
  StudyTable study_table() __attribute__((weak)); \
  }

#if defined(__x86_64__)
LLM_DECLARE_STUDY(scalar)
LLM_DECLARE_STUDY(avx2)
LLM_DECLARE_STUDY(avxvnni)
LLM_DECLARE_STUDY(avx512)
LLM_DECLARE_STUDY(avx512vnni)
#elif defined(__aarch64__)
LLM_DECLARE_STUDY(neon)
LLM_DECLARE_STUDY(neondot)
#else
LLM_DECLARE_STUDY(scalar)
#endif

#undef LLM_DECLARE_STUDY

}  // namespace llm
