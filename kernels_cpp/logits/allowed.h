// The logits that a mask allows: gathered where they are few, as those of a grammar mostly are, so
// that a choice among a dozen tokens does not read all of them again and again.
#pragma once

#include <cstdint>
#include <vector>

#include "logits/logits.h"

namespace llm {

// Places are those in values(): of gathered logits in the order of tokens, else the tokens, where
// what is not allowed is -inf.
class Allowed {
 public:
  Allowed(const LogitKernels& kernels, const float* logits, int64_t n, const uint32_t* mask);
  int64_t count() const { return count_; }  // of allowed tokens
  const std::vector<float>& values() const { return values_; }
  int64_t token(int64_t place) const { return tokens_.empty() ? place : tokens_[place]; }
  int64_t place(int64_t token) const;  // -1 if it is not allowed

 private:
  void gather(const float* logits, int64_t n);

  const uint32_t* mask_;
  int64_t count_;
  std::vector<float> values_;
  std::vector<int64_t> tokens_;  // of gathered values
};

}  // namespace llm
