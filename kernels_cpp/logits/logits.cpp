#include "logits/logits.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace llm {

// The `count`-th largest maximum of a block is a value that at least `count` values reach, so that
// only blocks that reach it need to be looked through.
void largest(const LogitKernels& kernels, const float* values, int64_t n, int64_t count,
             int64_t* indices) {
  if (count < 1) return;
  std::vector<float> maxima((n + kLogitBlock - 1) / kLogitBlock);
  kernels.maxima(values, n, maxima.data());
  std::vector<int64_t> found;
  const auto blocks = static_cast<int64_t>(maxima.size());
  float least = *std::min_element(maxima.begin(), maxima.end());
  if (count <= blocks) {
    std::vector<float> ranked = maxima;
    std::nth_element(ranked.begin(), ranked.begin() + (count - 1), ranked.end(), std::greater<>());
    least = ranked[count - 1];
  }
  const bool all = count > blocks;
  for (int64_t block = 0; block < blocks; ++block) {
    if (!all && maxima[block] < least) continue;
    const int64_t begin = block * kLogitBlock, end = std::min(n, begin + kLogitBlock);
    for (int64_t i = begin; i < end; ++i) {
      if (all || values[i] >= least) found.push_back(i);
    }
  }
  std::partial_sort_copy(found.begin(), found.end(), indices, indices + count,
                         [&](int64_t a, int64_t b) {
                           return values[a] > values[b] || (values[a] == values[b] && a < b);
                         });
}

}  // namespace llm
