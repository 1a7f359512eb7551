#include "logits/draw.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "logits/allowed.h"

namespace llm {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

struct Candidate {
  int64_t token;
  float score;
};

// The larger score first; of equal ones the lower token.
bool before(const Candidate& a, const Candidate& b) {
  return a.score > b.score || (a.score == b.score && a.token < b.token);
}

// The best k, falling. Few scores are changed: who is among the best k afterwards was among the
// best k and as many more before, or is one of the few.
std::vector<Candidate> best(const LogitKernels& kernels, const float* logits, int64_t n, int64_t k,
                            const Changed& changed) {
  std::vector<int64_t> tokens(std::min<int64_t>(n, k + changed.size()));
  largest(kernels, logits, n, tokens.size(), tokens.data());
  std::vector<Candidate> found;
  for (const int64_t token : tokens) {
    if (changed.count(token) == 0) found.push_back({token, logits[token]});
  }
  if (changed.empty()) return found;
  for (const auto& [token, score] : changed) found.push_back({token, score});
  std::sort(found.begin(), found.end(), before);
  if (static_cast<int64_t>(found.size()) > k) found.resize(k);
  return found;
}

// Of falling scores, divided by a temperature.
std::vector<double> softmax(const std::vector<Candidate>& falling, double temperature = 1) {
  std::vector<double> p;
  double total = 0;
  for (const Candidate& one : falling) {
    const double x = static_cast<double>(one.score) - falling[0].score;
    total += p.emplace_back(std::exp(x / temperature));
  }
  for (double& x : p) x /= total;
  return p;
}

void keep_typical(const Sampling& sampling, std::vector<Candidate>& found) {
  if (sampling.typical_p >= 1) return;
  const std::vector<double> p = softmax(found);
  double entropy = 0;
  for (const double x : p) entropy -= x > 0 ? x * std::log(x) : 0;
  std::vector<double> far;
  for (const double x : p) far.push_back(std::abs(-std::log(x) - entropy));
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return far[a] < far[b]; });
  double sum = 0;
  size_t count = 0;
  while (count < p.size() && p[order[count]] > 0 && sum < sampling.typical_p) {
    sum += p[order[count++]];
  }
  order.resize(std::max<size_t>(count, 1));
  std::sort(order.begin(), order.end());
  std::vector<Candidate> kept;
  for (const size_t i : order) kept.push_back(found[i]);
  found = std::move(kept);
}

// The first ones of falling probabilities; at least one.
void keep_likely(const Sampling& sampling, std::vector<Candidate>& found) {
  const std::vector<double> p = softmax(found);
  double sum = 0;
  size_t count = 0;
  while (count < p.size() && p[count] > 0 && (sum < sampling.top_p || sampling.top_p >= 1) &&
         p[count] >= sampling.min_p * p[0]) {
    sum += p[count++];
  }
  found.resize(std::max<size_t>(count, 1));
}

void drop_top_choices(const Sampling& sampling, double uniform, std::vector<Candidate>& found) {
  if (uniform >= sampling.xtc_probability || sampling.xtc_threshold > 0.5) return;
  const std::vector<double> p = softmax(found);
  size_t viable = 0;
  while (viable < p.size() && p[viable] >= sampling.xtc_threshold) ++viable;
  if (viable >= 2) found.erase(found.begin(), found.begin() + (viable - 1));
}

Drawn drawn(const std::vector<Candidate>& found, double temperature, double uniform) {
  const std::vector<double> p = softmax(found, temperature);
  double sum = 0;
  size_t chosen = 0;
  while (chosen + 1 < p.size() && (sum += p[chosen]) <= uniform) ++chosen;
  return {found[chosen].token, -std::log2(p[chosen])};
}

// Of all tokens only those that are not more surprising than mu are sorted.
Drawn draw_mirostat(const float* logits, int64_t n, const Changed& changed,
                    const Sampling& sampling, const DrawState& state) {
  std::vector<Candidate> all;
  all.reserve(n);
  for (int64_t token = 0; token < n; ++token) all.push_back({token, logits[token]});
  for (const auto& [token, score] : changed) all[token].score = score;
  const Candidate most = *std::min_element(all.begin(), all.end(), before);
  if (most.score == kImpossible) return {-1, 0};
  std::vector<double> weights;
  weights.reserve(n);
  double total = 0;
  for (const Candidate& one : all) {
    const double x = static_cast<double>(one.score) - most.score;
    total += weights.emplace_back(std::exp(x / sampling.temperature));
  }
  std::vector<Candidate> found;
  for (const Candidate& one : all) {
    if (-std::log2(weights[one.token] / total) <= state.mu) found.push_back(one);
  }
  if (found.empty()) found.push_back(most);
  std::sort(found.begin(), found.end(), before);
  return drawn(found, sampling.temperature, state.uniform);
}

Drawn draw_among(const LogitKernels& kernels, const float* logits, int64_t n,
                 const Changed& changed, const Sampling& sampling, const DrawState& state) {
  const bool greedy = sampling.temperature == 0;
  if (sampling.mirostat && !greedy) return draw_mirostat(logits, n, changed, sampling, state);
  const int64_t k = greedy ? 1 : sampling.top_k > 0 ? std::min(sampling.top_k, n) : n;
  std::vector<Candidate> found = best(kernels, logits, n, k, changed);
  if (found[0].score == kImpossible) return {-1, 0};
  if (greedy) return {found[0].token, 0};
  keep_typical(sampling, found);
  keep_likely(sampling, found);
  drop_top_choices(sampling, state.xtc_uniform, found);
  return drawn(found, sampling.temperature, state.uniform);
}

}  // namespace

Drawn draw(const LogitKernels& kernels, const float* logits, int64_t n, const Sampling& sampling,
           const DrawState& state) {
  const Changed changed = changed_scores(logits, sampling, state);
  if (state.mask == nullptr) return draw_among(kernels, logits, n, changed, sampling, state);
  const Allowed allowed(kernels, logits, n, state.mask);
  if (allowed.count() == 0) return {-1, 0};
  Changed of_allowed;
  for (const auto& [token, score] : changed) {
    const int64_t place = allowed.place(token);
    if (place >= 0) of_allowed[place] = score;
  }
  const std::vector<float>& values = allowed.values();
  const Drawn drawn =
      draw_among(kernels, values.data(), values.size(), of_allowed, sampling, state);
  return {drawn.token < 0 ? -1 : allowed.token(drawn.token), drawn.surprise};
}

}  // namespace llm
