// A product of some tokens and one matrix, in the way that their number wants; defined in
// matmul.cpp, so that what formats need of it is compiled once.
#pragma once

#include "plan/op.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kTaskBytes = 24 << 10;  // of weights: a microsecond of memory traffic
// At most, of a large product: so many that no worker waits for long.
constexpr int64_t kTasksPerWorker = 16;      // of one token
constexpr int64_t kPanelTasksPerWorker = 8;  // of many

struct Wanted {
  int64_t tokens;
  bool by_panels;
  bool by_dots;
};

// Of int8 activations, whose products have the same bits in any way.
Wanted wanted_of_integers(int64_t tokens);
// Rows of the weight op.in[1] that one task must take whole.
int64_t row_granule(const Op& op, bool by_panels);
// op.out[0] = op.in[0] . op.in[1]^T, of some rows of the weight
void multiply(const Op& op, const Wanted& wanted, Range rows, const Task& task);
size_t product_scratch(const Tensor& x);

}  // namespace LLM_ISA
}  // namespace llm
