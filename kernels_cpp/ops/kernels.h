// The ops of one instruction set. Each is defined in the file of its name.
#pragma once

#include "plan/op.h"

namespace llm {
namespace LLM_ISA {

#define LLM_KERNEL(name, check) extern const Kernel k##name;
LLM_OPS(LLM_KERNEL)
#undef LLM_KERNEL

static inline size_t no_scratch(const Op&) { return 0; }

// Tasks of an op that treats rows one by one. Below this many values a thread is done with all of
// them sooner than another one has noticed.
constexpr int64_t kValuesWorthSharing = 8192;

static inline int64_t row_tasks(const Op& op, const Step& step) {
  const int64_t rows = rows_in_use(*op.out[0], step);
  if (rows * op.out[0]->n_cols < kValuesWorthSharing) return 1;
  const int64_t wanted = 2 * step.workers;
  return rows < wanted ? rows : wanted;
}

}  // namespace LLM_ISA
}  // namespace llm
