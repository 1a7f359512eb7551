// The step buffer: words that change from step to step. core/plan/step.py says the same.
#pragma once

#include <cstdint>

namespace llm {

constexpr int kStepHeaderWords = 16;

struct Step {
  int32_t n_tokens;
  int32_t start;         // position of the first token
  int32_t kv_length;     // positions in the cache once this step's tokens are in
  int32_t first_output;  // the first token of the step whose logits are asked for
  int32_t n_outputs;
  const int32_t* tokens;  // [n_tokens]
  int workers;            // threads that share the work
};

static inline Step read_step(const int32_t* words, int workers) {
  return {words[0], words[1], words[2], words[3], words[4], words + kStepHeaderWords, workers};
}

}  // namespace llm
