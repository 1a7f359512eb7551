// The ops of one instruction set. Each is defined in the file of its name.
#pragma once

#include "plan/op.h"

namespace llm {
namespace LLM_ISA {

extern const Kernel kEmbed;
extern const Kernel kTableRows;
extern const Kernel kRmsNorm;
extern const Kernel kQuantize;
extern const Kernel kMatmul;
extern const Kernel kRope;
extern const Kernel kStore;
extern const Kernel kAttention;
extern const Kernel kSiluMul;
extern const Kernel kGeluMul;
extern const Kernel kAdd;
extern const Kernel kScale;
extern const Kernel kSoftcap;
extern const Kernel kSparsify;
extern const Kernel kColumns;
extern const Kernel kConcat;
extern const Kernel kMatchRms;
extern const Kernel kAltupPredict;
extern const Kernel kAltupCorrect;
extern const Kernel kAddStreams;
extern const Kernel kOutputRows;

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
