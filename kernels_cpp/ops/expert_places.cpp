// The choices of experts in the order of their experts, those of one expert as they come: the place
// of each, and where each expert begins
#include <algorithm>

#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

static int64_t one_task(const Op&, const Step&) { return 1; }

static void expert_places(const Op& op, const Step& step, const Task&) {
  const Tensor& chosen = *op.in[0];
  const int64_t choices = step.n_tokens * chosen.n_cols, experts = op.out[1]->n_cols - 1;
  const float* of = row<const float>(chosen, 0);
  float *places = row<float>(*op.out[0], 0), *starts = row<float>(*op.out[1], 0);
  std::fill_n(starts, experts + 1, 0.0f);
  for (int64_t i = 0; i < choices; ++i) ++starts[static_cast<int64_t>(of[i]) + 1];
  for (int64_t e = 0; e < experts; ++e) starts[e + 1] += starts[e];
  for (int64_t i = 0; i < choices; ++i) places[i] = starts[static_cast<int64_t>(of[i])]++;
  for (int64_t e = experts; e > 0; --e) starts[e] = starts[e - 1];  // each is where the next begins
  starts[0] = 0.0f;
}

const Kernel kExpertPlaces = {one_task, expert_places, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
