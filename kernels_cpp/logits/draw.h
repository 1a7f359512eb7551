// From logits to a token: mask, biases, penalties, DRY, top-k, typical-p, top-p, min-p, XTC, then
// temperature; or Mirostat in the place of the filters. core/generation/sampling.py has the
// sources.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "logits/logits.h"

namespace llm {

struct Sampling {
  double temperature = 1;          // 0: the best token
  int64_t top_k = 0;               // 0: all
  double top_p = 1;                // 1: all
  double min_p = 0;                // 0: all
  double typical_p = 1;            // 1: all
  double xtc_probability = 0;      // 0: off
  double xtc_threshold = 0.1;      // of a probability
  float repetition_penalty = 1;    // 1: off
  double presence_penalty = 0;     // 0: off
  double frequency_penalty = 0;    // 0: off
  double dry_multiplier = 0;       // 0: off
  double dry_base = 1.75;          //
  int64_t dry_allowed_length = 2;  // tokens
  bool mirostat = false;
  std::vector<std::pair<int64_t, float>> bias;  // token, what is added
};

struct Tokens {
  const int64_t* ids;
  int64_t count;
};

// What differs from token to token.
struct DrawState {
  Tokens recent;         // that the penalties look at
  Tokens repeats;        // that DRY looks at
  int64_t unbroken;      // how many last ones of these no sequence breaker ends
  const uint32_t* mask;  // a bit for each token, 1 where it may be chosen; null: all may
  double mu;             // of Mirostat: the most surprise, in bits
  double uniform;        // in [0, 1), decides
  double xtc_uniform;    // in [0, 1), whether XTC acts
};

struct Drawn {
  int64_t token;
  double surprise;  // -log2 of its probability among those that were left
};

using Changed = std::map<int64_t, float>;  // token -> its score, where that is not its logit

// Scores of the few tokens that biases, penalties and DRY touch.
Changed changed_scores(const float* logits, const Sampling& sampling, const DrawState& state);

// The logits are numbers. Token -1 where all that the mask allows are -inf.
Drawn draw(const LogitKernels& kernels, const float* logits, int64_t n, const Sampling& sampling,
           const DrawState& state);

}  // namespace llm
