// The k experts of each token with the highest scores, and what each weighs; core/exec/reference.py
// defines the order of experts that are equal.
#include <cmath>

#include "base/exp.h"
#include "ops/kernels.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kExpertsWorthSharing = 4096;  // logits, as kValuesWorthSharing
constexpr float kAfterAll = -3e38f;  // what an expert is worth that is chosen after all others

// x[i] = e^(x[i] - most), and their sum
static float exp_of(float* x, int64_t n) {
  float most = x[0];
  for (int64_t i = 1; i < n; ++i) most = x[i] > most ? x[i] : most;
  float whole = 0.0f;
  for (int64_t i = 0; i < n; i += kWidth) {
    const int64_t left = n - i < kWidth ? n - i : kWidth;
    float lanes[kWidth];
    store(lanes, exp(load_part(x + i, left) - most));
    for (int64_t j = 0; j < left; ++j) {
      x[i + j] = lanes[j];
      whole += lanes[j];
    }
  }
  return whole;
}

static void softmax(float* x, int64_t n) {
  const float whole = exp_of(x, n);
  for (int64_t i = 0; i < n; ++i) x[i] /= whole;
}

static void score(const RouteParams& params, const float* logits, int64_t n, float* scores) {
  for (int64_t i = 0; i < n; ++i) scores[i] = logits[i];
  if (!params.sigmoid) return softmax(scores, n);
  for (int64_t i = 0; i < n; i += kWidth) {
    const int64_t left = n - i < kWidth ? n - i : kWidth;
    float lanes[kWidth];
    store(lanes, sigmoid(load_part(scores + i, left)));
    for (int64_t j = 0; j < left; ++j) scores[i + j] = lanes[j];
  }
}

// The first of the highest; it is not found again.
static int64_t take_highest(float* values, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (values[i] > values[best]) best = i;
  }
  values[best] = -INFINITY;
  return best;
}

static float two_highest(const float* values, int64_t n) {
  float first = -INFINITY, second = -INFINITY;
  for (int64_t i = 0; i < n; ++i) {
    if (values[i] > first) {
      second = first;
      first = values[i];
    } else if (values[i] > second) {
      second = values[i];
    }
  }
  return n > 1 ? first + second : first;
}

// Experts of all groups but the best are not found. sums: [groups]
static void leave_groups_out(const RouteParams& params, float* worth, int64_t n, float* sums) {
  const int64_t each = n / params.groups;
  for (int64_t g = 0; g < params.groups; ++g) sums[g] = two_highest(worth + g * each, each);
  for (int64_t i = 0; i < params.chosen_groups; ++i) take_highest(sums, params.groups);
  for (int64_t i = params.chosen_groups; i < params.groups; ++i) {
    const int64_t group = take_highest(sums, params.groups);
    for (int64_t j = 0; j < each; ++j) worth[group * each + j] = -INFINITY;
  }
}

static const float* vector_of(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : row<const float>(*tensor, 0);
}

// What a sequence says of the experts of this layer, null if nothing can be said: factors of
// shares, and behind them who is chosen before or after all others.
static const float* switches_of(const Op& op, const Step& step, int64_t token) {
  if (op.in[3] == nullptr) return nullptr;
  return row<const float>(*op.in[3], step.slot(token) * op.slot_layers + op.params.route.layer);
}

static void route(const Op& op, const Step& step, const Task& task) {
  const Tensor &logits = *op.in[0], &chosen = *op.out[0];
  const RouteParams& params = op.params.route;
  const int64_t n = logits.n_cols, count = chosen.n_cols;
  auto* scores = reinterpret_cast<float*>(task.scratch);
  float *worth = scores + n, *sums = worth + n;
  const Range tokens = share(task, step.n_tokens);
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    const float* of_token = row<const float>(logits, t);
    score(params, of_token, n, scores);
    const float* bias = vector_of(op.in[1]);
    for (int64_t i = 0; i < n; ++i) {
      if (bias != nullptr) {
        worth[i] = scores[i] + bias[i];
      } else {
        worth[i] = params.groups > 1 ? scores[i] : of_token[i];
      }
    }
    if (params.groups > 1) leave_groups_out(params, worth, n, sums);
    const float* switches = switches_of(op, step, t);
    for (int64_t i = 0; switches != nullptr && i < n; ++i) {
      if (switches[n + i] > 1.0f) worth[i] = INFINITY;
      if (switches[n + i] < 1.0f) worth[i] = kAfterAll;
    }
    float *experts = row<float>(chosen, t), *shares = row<float>(*op.out[1], t);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t expert = take_highest(worth, n);
      experts[i] = static_cast<float>(expert);
      shares[i] = params.late ? of_token[expert] : scores[expert];
    }
    if (params.late) softmax(shares, count);
    float whole = 1.0f;
    if (params.normalized) {
      whole = 0.0f;
      for (int64_t i = 0; i < count; ++i) whole += shares[i];
    }
    const float* gains = vector_of(op.in[2]);
    for (int64_t i = 0; i < count; ++i) {
      const float gain = gains == nullptr ? 1.0f : gains[static_cast<int64_t>(experts[i])];
      shares[i] = shares[i] / whole * params.factor * gain;
      if (switches != nullptr) shares[i] *= switches[static_cast<int64_t>(experts[i])];
    }
  }
}

static int64_t route_tasks(const Op& op, const Step& step) {
  if (step.n_tokens * op.in[0]->n_cols < kExpertsWorthSharing) return 1;
  const int64_t wanted = 2 * step.workers;
  return step.n_tokens < wanted ? step.n_tokens : wanted;
}

static size_t route_scratch(const Op& op) { return 3 * sizeof(float) * op.in[0]->n_cols; }

const Kernel kRoute = {route_tasks, route, route_scratch};

}  // namespace LLM_ISA
}  // namespace llm
