#include <algorithm>
#include <cmath>
#include <vector>

#include "logits/draw.h"

namespace llm {
namespace {

constexpr double kMostPenalty = 1e30;  // DRY's, so that no score becomes -inf

float score_of(const Changed& changed, const float* logits, int64_t token) {
  const auto found = changed.find(token);
  return found == changed.end() ? logits[token] : found->second;
}

void add_penalties(const float* logits, const Sampling& sampling, Tokens recent, Changed& changed) {
  std::map<int64_t, int64_t> counts;
  for (int64_t i = 0; i < recent.count; ++i) ++counts[recent.ids[i]];
  const float factor = sampling.repetition_penalty;
  for (const auto& [token, count] : counts) {
    float x = score_of(changed, logits, token);
    if (factor != 1) x = x > 0 ? x / factor : x * factor;
    x -= static_cast<float>(count * sampling.frequency_penalty + sampling.presence_penalty);
    changed[token] = x;
  }
}

// How many tokens before each place are also the last ones of all, at most `most`: the Z function
// (Gusfield 1997) of the tokens backwards. lengths[i] is of the tokens that end before `count - i`.
std::vector<int64_t> repeated_lengths(Tokens tokens, int64_t most) {
  const auto at = [&](int64_t i) { return tokens.ids[tokens.count - 1 - i]; };
  std::vector<int64_t> lengths(tokens.count);
  int64_t left = 0, right = 0;
  for (int64_t i = 1; i < tokens.count; ++i) {
    int64_t length = i < right ? std::min(right - i, lengths[i - left]) : 0;
    while (i + length < tokens.count && at(length) == at(i + length)) ++length;
    if (i + length > right) left = i, right = i + length;
    lengths[i] = length;
  }
  for (int64_t& length : lengths) length = std::min(length, most);
  return lengths;
}

// A token that would go on with what was said before: the longer the repeat, the more it loses.
void add_dry(const float* logits, const Sampling& sampling, const DrawState& state,
             Changed& changed) {
  const Tokens tokens = state.repeats;
  const std::vector<int64_t> lengths = repeated_lengths(tokens, state.unbroken);
  std::map<int64_t, int64_t> longest;
  for (int64_t i = 1; i < tokens.count; ++i) {
    if (lengths[i] < std::max<int64_t>(sampling.dry_allowed_length, 1)) continue;
    int64_t& of_next = longest[tokens.ids[tokens.count - i]];
    of_next = std::max(of_next, lengths[i]);
  }
  for (const auto& [token, length] : longest) {
    const double power = std::pow(sampling.dry_base, length - sampling.dry_allowed_length);
    const double penalty = std::min(sampling.dry_multiplier * power, kMostPenalty);
    changed[token] = score_of(changed, logits, token) - static_cast<float>(penalty);
  }
}

}  // namespace

Changed changed_scores(const float* logits, const Sampling& sampling, const DrawState& state) {
  Changed changed;
  for (const auto& [token, bias] : sampling.bias) {
    changed[token] = score_of(changed, logits, token) + bias;
  }
  if (state.recent.count > 0) add_penalties(logits, sampling, state.recent, changed);
  if (sampling.dry_multiplier > 0) add_dry(logits, sampling, state, changed);
  return changed;
}

}  // namespace llm
