#include "logits/draw.h"

#include <algorithm>
#include <cmath>

namespace llm {
namespace {

struct Candidate {
  int64_t token;
  float score;
};

// The larger score first; of equal ones the lower token.
bool before(const Candidate& a, const Candidate& b) {
  return a.score > b.score || (a.score == b.score && a.token < b.token);
}

// The best k, falling. The penalty moves few tokens: who is among the best k afterwards was among
// the best k and as many more before, or is one of the few.
std::vector<Candidate> best(const LogitKernels& kernels, const float* logits, int64_t n, int64_t k,
                            const Sampling& sampling) {
  const std::vector<int64_t>& recent = sampling.recent;
  std::vector<int64_t> tokens(std::min<int64_t>(n, k + recent.size()));
  largest(kernels, logits, n, tokens.size(), tokens.data());
  std::vector<Candidate> found;
  for (const int64_t token : tokens) {
    if (!std::binary_search(recent.begin(), recent.end(), token)) {
      found.push_back({token, logits[token]});
    }
  }
  if (recent.empty()) return found;
  for (const int64_t token : recent) {
    const float x = logits[token];
    found.push_back({token, x > 0 ? x / sampling.penalty : x * sampling.penalty});
  }
  std::sort(found.begin(), found.end(), before);
  if (static_cast<int64_t>(found.size()) > k) found.resize(k);
  return found;
}

std::vector<double> softmax(const std::vector<double>& falling) {
  std::vector<double> p;
  double total = 0;
  for (const double x : falling) total += p.emplace_back(std::exp(x - falling[0]));
  for (double& x : p) x /= total;
  return p;
}

// How many first ones of falling probabilities stay: Holtzman et al. 2020 (top-p) and Nguyen et al.
// 2024 (min-p); at least one.
size_t kept(const std::vector<double>& p, const Sampling& sampling) {
  double sum = 0;
  size_t count = 0;
  while (count < p.size() && p[count] > 0 && sum < sampling.top_p &&
         p[count] >= sampling.min_p * p[0]) {
    sum += p[count++];
  }
  return std::max<size_t>(count, 1);
}

}  // namespace

int64_t draw(const LogitKernels& kernels, const float* logits, int64_t n, const Sampling& sampling,
             double uniform) {
  const bool greedy = sampling.temperature == 0;
  const int64_t k = greedy ? 1 : sampling.top_k > 0 ? std::min(sampling.top_k, n) : n;
  const std::vector<Candidate> found = best(kernels, logits, n, k, sampling);
  if (greedy) return found[0].token;
  std::vector<double> scores;
  for (const Candidate& one : found) scores.push_back(one.score);
  scores.resize(kept(softmax(scores), sampling));
  const double most = scores[0];
  for (double& x : scores) x = (x - most) / sampling.temperature;
  const std::vector<double> p = softmax(scores);
  double sum = 0;
  size_t chosen = 0;
  while (chosen + 1 < p.size() && (sum += p[chosen]) <= uniform) ++chosen;
  return found[chosen].token;
}

}  // namespace llm
