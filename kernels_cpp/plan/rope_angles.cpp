#include "plan/rope_angles.h"

#include <cmath>

namespace llm {

RopeAngles::RopeAngles(const Op& rope)
    : max_tokens_(rope.in[0]->n_rows),
      pairs_(rope.params.rope.rotary_dim / 2),
      theta_(rope.params.rope.theta),
      scale_(rope.params.rope.scale),
      temperature_(rope.params.rope.temperature),
      temperature_length_(rope.params.rope.temperature_length),
      factors_(rope.in[1] ? reinterpret_cast<const float*>(rope.in[1]->data) : nullptr) {}

bool RopeAngles::same_as(const RopeAngles& other) const {
  return max_tokens_ == other.max_tokens_ && pairs_ == other.pairs_ && theta_ == other.theta_ &&
         scale_ == other.scale_ && factors_ == other.factors_ &&
         temperature_ == other.temperature_ && temperature_length_ == other.temperature_length_;
}

void RopeAngles::allocate() {
  values_.resize(2 * max_tokens_ * pairs_ + max_tokens_);
  for (int64_t i = 0; i < pairs_; ++i) {
    const double exponent = -static_cast<double>(i) / static_cast<double>(pairs_);
    const double factor = factors_ ? factors_[i] : 1;
    frequencies_.push_back(std::pow(theta_, exponent) / factor * scale_);
  }
}

double RopeAngles::temperature_at(int64_t position) const {
  if (temperature_ <= 0) return 1;
  return 1 + temperature_ * std::log(1.0 + static_cast<double>(position / temperature_length_));
}

void RopeAngles::compute(const Step& step) {
  float* cosines = values_.data();
  float* sines = cosines + max_tokens_ * pairs_;
  float* temperatures = sines + max_tokens_ * pairs_;
  for (int64_t t = 0; t < step.n_tokens; ++t) {
    const int64_t position = step.position(t);
    const double temperature = temperature_at(position);
    temperatures[t] = static_cast<float>(temperature);
    for (int64_t i = 0; i < pairs_; ++i) {
      const double angle = static_cast<double>(position) * frequencies_[i];
      cosines[t * pairs_ + i] = static_cast<float>(std::cos(angle) * temperature);
      sines[t * pairs_ + i] = static_cast<float>(std::sin(angle) * temperature);
    }
  }
}

}  // namespace llm
