// A plan with its memory settled, built from the flat arrays that Python hands over once.
#pragma once

#include <vector>

#include "base/aligned.h"
#include "plan/op.h"
#include "plan/rope_angles.h"

namespace llm {

// One row of the tensor array; the order of core/exec/cpu/plan_rows.py.
struct TensorRow {
  int64_t id;
  int64_t dtype;
  int64_t rows;  // enum Rows
  int64_t per_token;
  int64_t n_rows;
  int64_t n_cols;
  int64_t block;
  int64_t ring;
  int64_t address;  // of its first byte
};

// One row of the op array; -1 where an operand is left out.
struct OpRow {
  int64_t code;
  int64_t in[kMaxInputs];
  int64_t out[kMaxOutputs];
};

class Plan {
 public:
  Plan(const std::vector<TensorRow>& tensors, const std::vector<OpRow>& ops,
       const std::vector<double>& params, const StepShape& shape);  // params: [ops][kMaxParams]
  Plan(Plan&&) = default;  // never copied: ops point into the vectors' memory

  const std::vector<Op>& ops() const { return ops_; }
  const StepShape& shape() const { return shape_; }
  // Whether op `index` may run at the same time as the ops first..index-1.
  bool independent(size_t first, size_t index) const { return first >= untouched_[index]; }
  void start(const Step& step);  // computes the angles of this step's positions

 private:
  const Tensor* tensor(int64_t id) const;
  void add_angles(Op& op);
  void check_pages(const Op& op, size_t index) const;
  void check_source(const Op& op, size_t index) const;
  void check_slots(const Op& op, size_t index) const;
  void check_states(const Op& op, size_t index) const;
  size_t first_independent(size_t index) const;

  StepShape shape_;
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<RopeAngles> angles_;
  std::vector<size_t> untouched_;  // [ops]: from here up to an op, none touches what it touches
};

}  // namespace llm
