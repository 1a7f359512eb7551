// The most multiply-adds that vectors of this instruction set can do: sums that stay in registers
// and do not wait for one another.
#include "study/kernels.h"

namespace llm {
namespace LLM_ISA {

float study_multiply_adds(int64_t rounds) {
  F32 sums[kStudySums];
  for (int i = 0; i < kStudySums; ++i) sums[i] = broadcast(static_cast<float>(i));
  // Sums come to 1 and stay there: no overflow, and nothing so small that it is slow.
  const volatile float factor = 0.5f, addend = 0.5f;
  const F32 f = broadcast(factor), g = broadcast(addend);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 8
    for (int step = 0; step < kStudyUnrolled; ++step) {
#pragma GCC unroll 32
      for (int i = 0; i < kStudySums; ++i) sums[i] = sums[i] * f + g;
    }
  }
  F32 total = {};
  for (int i = 0; i < kStudySums; ++i) total += sums[i];
  return sum(total);
}

StudyTable study_table() {
  return {study_naive,     study_loop_order,    study_blocked,
          study_registers, study_multiply_adds, int64_t{kStudySums} * kStudyUnrolled * kWidth};
}

}  // namespace LLM_ISA
}  // namespace llm
