#include "logits/allowed.h"

#include <algorithm>

namespace llm {
namespace {

constexpr int64_t kGatheredShare = 16;  // of all tokens at most one in so many

uint32_t word_of(const uint32_t* mask, int64_t n, int64_t word) {
  const int64_t left = n - 32 * word;
  return left < 32 ? mask[word] & ((1u << left) - 1) : mask[word];
}

int64_t bits_of(const uint32_t* mask, int64_t n) {
  int64_t count = 0;
  for (int64_t word = 0; 32 * word < n; ++word) {
    count += __builtin_popcount(word_of(mask, n, word));
  }
  return count;
}

}  // namespace

Allowed::Allowed(const LogitKernels& kernels, const float* logits, int64_t n, const uint32_t* mask)
    : mask_(mask), count_(bits_of(mask, n)) {
  if (count_ <= n / kGatheredShare) {
    gather(logits, n);
    return;
  }
  values_.resize(n);
  kernels.keep_allowed(logits, n, mask, values_.data());
}

void Allowed::gather(const float* logits, int64_t n) {
  tokens_.reserve(count_);
  for (int64_t word = 0; 32 * word < n; ++word) {
    for (uint32_t bits = word_of(mask_, n, word); bits != 0; bits &= bits - 1) {
      tokens_.push_back(32 * word + __builtin_ctz(bits));
    }
  }
  values_.reserve(count_);
  for (const int64_t token : tokens_) values_.push_back(logits[token]);
}

int64_t Allowed::place(int64_t token) const {
  if ((mask_[token / 32] >> (token % 32) & 1) == 0) return -1;
  if (tokens_.empty()) return token;
  return std::lower_bound(tokens_.begin(), tokens_.end(), token) - tokens_.begin();
}

}  // namespace llm
