// The rows that each expert has, of tensors with a row for each choice in the order of experts.
#pragma once

#include "plan/op.h"

namespace llm {
namespace LLM_ISA {

class Experts {
 public:
  explicit Experts(const Tensor& starts)
      : starts_(row<const float>(starts, 0)), count_(starts.n_cols - 1) {}

  int64_t begin(int64_t expert) const { return static_cast<int64_t>(starts_[expert]); }
  int64_t end(int64_t expert) const { return begin(expert + 1); }

  // Calls run(expert) for those that have rows.
  template <typename Run>
  void each(const Run& run) const {
    for (int64_t e = 0; e < count_; ++e) {
      if (begin(e) < end(e)) run(e);
    }
  }

 private:
  const float* starts_;
  int64_t count_;
};

inline Tensor rows_of_expert(const Tensor& tensor, const Experts& experts, int64_t expert) {
  Tensor own = tensor;
  own.rows = Rows::kFixed;
  own.per_token = 1;
  own.data += experts.begin(expert) * row_bytes(tensor);
  own.n_rows = experts.end(expert) - experts.begin(expert);
  return own;
}

}  // namespace LLM_ISA
}  // namespace llm
