// The forms of the study, in the namespace of one instruction set.
#pragma once

#include "base/simd.h"
#include "study/forms.h"

namespace llm {
namespace LLM_ISA {

// No templates of the standard library in these files: the linker must never pick an AVX copy of
// one for code that runs on any machine.
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The first n lanes of v are added to c[0 ..]; none if n is not positive.
static inline void add_lanes(float* c, F32 v, int64_t n) {
  if (n >= kWidth) {
    store(c, load(c) + v);
  } else if (n > 0) {
    store_part(c, load_part(c, n) + v, n);
  }
}

void study_naive(const StudyProduct& p, StudyRows rows);
void study_loop_order(const StudyProduct& p, StudyRows rows);
void study_blocked(const StudyProduct& p, StudyRows rows);
void study_registers(const StudyProduct& p, StudyRows rows);

// As many sums at a time as hide how long one takes: a processor starts two to four a cycle, each
// of which takes four to five.
#if defined(__aarch64__) || defined(__AVX512F__)
constexpr int kStudySums = 20;
#else
constexpr int kStudySums = 12;
#endif
constexpr int kStudyUnrolled = 8;  // steps of a round
float study_multiply_adds(int64_t rounds);

}  // namespace LLM_ISA
}  // namespace llm
