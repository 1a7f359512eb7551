// From logits to a token: repetition penalty, top-k, top-p and min-p on what is left at temperature
// 1, then temperature.
#pragma once

#include <cstdint>
#include <vector>

#include "logits/logits.h"

namespace llm {

struct Sampling {
  double temperature;  // 0: the best token
  int64_t top_k;       // 0: all
  double top_p;
  double min_p;
  float penalty;                // of `recent`: Keskar et al. 2019
  std::vector<int64_t> recent;  // tokens, rising
};

// `uniform`, in [0, 1), decides. The logits are numbers, not all of them -inf.
int64_t draw(const LogitKernels& kernels, const float* logits, int64_t n, const Sampling& sampling,
             double uniform);

}  // namespace llm
