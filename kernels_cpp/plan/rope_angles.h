// Cosines and sines of a step's positions, and what their queries are multiplied by; shared by all
// layers.
#pragma once

#include <vector>

#include "plan/op.h"

namespace llm {

class RopeAngles {
 public:
  explicit RopeAngles(const Op& rope);
  bool same_as(const RopeAngles& other) const;
  void allocate();
  // In float64, as exec/reference.py: at position 10^5 float32 is off by 10^-2.
  void compute(const Step& step);
  // Cosines, then sines, both multiplied by the temperatures: [max_tokens, pairs]; temperatures
  // [max_tokens]
  const float* data() const { return values_.data(); }

 private:
  double temperature_at(int64_t position) const;
  int64_t max_tokens_, pairs_;
  double theta_, scale_;
  float temperature_;
  int64_t temperature_length_;
  const float* factors_;  // [pairs]; frequencies are divided by them; or null
  std::vector<double> frequencies_;
  std::vector<float> values_;
};

}  // namespace llm
