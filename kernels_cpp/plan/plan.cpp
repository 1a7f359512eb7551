#include "plan/plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "plan/check.h"

namespace llm {
namespace {

bool overlap(const Tensor* a, const Tensor* b) {
  if (a == nullptr || b == nullptr) return false;
  const uint8_t* a_end = a->data + a->n_rows * row_bytes(*a);
  const uint8_t* b_end = b->data + b->n_rows * row_bytes(*b);
  return a->data < b_end && b->data < a_end;
}

// Whether `later` reads or writes what `earlier` writes, or writes what it reads.
bool depends(const Op& later, const Op& earlier) {
  for (const Tensor* written : earlier.out) {
    for (const Tensor* t : later.in) {
      if (overlap(written, t)) return true;
    }
    for (const Tensor* t : later.out) {
      if (overlap(written, t)) return true;
    }
  }
  for (const Tensor* read : earlier.in) {
    for (const Tensor* t : later.out) {
      if (overlap(read, t)) return true;
    }
  }
  return false;
}

// What an op reads of its layer from a tensor that has rows of every layer for one sequence after
// the other: gains of heads, switches of experts, shifts; null if there is none.
struct OfSlots {
  const Tensor* rows;
  int64_t layer;
};

OfSlots of_slots(const Op& op) {
  switch (op.code) {
    case OpCode::kAttention:
      return {op.in[3], op.params.attention.layer};
    case OpCode::kRoute:
      return {op.in[3], op.params.route.layer};
    case OpCode::kShift:
      return {op.in[1], op.params.shift.layer};
    default:
      return {nullptr, 0};
  }
}

}  // namespace

Plan::Plan(const std::vector<TensorRow>& tensors, const std::vector<OpRow>& ops,
           const std::vector<double>& params, const StepShape& shape)
    : shape_(shape) {
  for (const TensorRow& t : tensors) {
    tensors_.push_back({reinterpret_cast<uint8_t*>(t.address), static_cast<DType>(t.dtype),
                        static_cast<Rows>(t.rows), t.per_token, t.n_rows, t.n_cols, t.block,
                        t.ring});
  }
  angles_.reserve(ops.size());  // ops point into it
  for (size_t i = 0; i < ops.size(); ++i) {
    Op op = {};
    op.code = static_cast<OpCode>(ops[i].code);
    for (int j = 0; j < kMaxInputs; ++j) op.in[j] = tensor(ops[i].in[j]);
    for (int j = 0; j < kMaxOutputs; ++j) op.out[j] = tensor(ops[i].out[j]);
    op.params = read_params(op.code, params.data() + i * kMaxParams);
    check_op(op, i);
    check_pages(op, i);
    check_source(op, i);
    check_slots(op, i);
    check_states(op, i);
    op.segments = shape.segments;
    op.positions = shape.segments > 0 ? shape.table * kPage : 0;
    if (const Tensor* rows = of_slots(op).rows) op.slot_layers = rows->n_rows / shape.slots;
    if (op.code == OpCode::kRope) add_angles(op);
    ops_.push_back(op);
    untouched_.push_back(first_independent(i));
  }
  const bool whole = std::any_of(ops_.begin(), ops_.end(), [](const Op& op) {
    return op.code == OpCode::kAttention && op.params.attention.bidirectional;
  });
  const bool integers = std::any_of(tensors_.begin(), tensors_.end(),
                                    [](const Tensor& t) { return t.dtype == DType::kA8; });
  for (Op& op : ops_) {
    op.whole_sequences = whole;
    op.as_alone = integers && !whole;
  }
}

const Tensor* Plan::tensor(int64_t id) const {
  if (id < 0) return nullptr;
  if (static_cast<size_t>(id) >= tensors_.size()) {
    throw std::invalid_argument("the plan has no tensor " + std::to_string(id));
  }
  return &tensors_[id];
}

// Where several sequences share steps, a page may be any of a cache's.
void Plan::check_pages(const Op& op, size_t index) const {
  if (shape_.segments == 0) return;
  const int64_t others = shape_.pages - shape_.ringed;
  const int64_t fewest = shape_.windowed > 0 ? std::min(shape_.windowed, others) : others;
  const auto holds = [&](const Tensor* cache) {
    if (cache == nullptr || cache->n_rows >= shape_.pages * kPage) return true;
    const int64_t rest = cache->n_rows - cache->ring;
    return cache->ring >= kPage && cache->ring % kPage == 0 && rest >= fewest * kPage;
  };
  bool fits = true;
  if (op.code == OpCode::kStore) fits = holds(op.out[0]) && holds(op.out[1]) && holds(op.out[2]);
  if (op.code == OpCode::kAttention && !op.params.attention.cross) {
    fits = holds(op.in[1]) && holds(op.in[2]) && op.in[1]->ring == op.in[2]->ring;
  }
  if (!fits) {
    throw std::invalid_argument("a cache of op " + std::to_string(index) + " lacks pages");
  }
}

// A source's keys and values lie in the first rows of caches, and there is one at least.
void Plan::check_source(const Op& op, size_t index) const {
  if (op.code != OpCode::kAttention || !op.params.attention.cross) return;
  if (shape_.source < 1 || op.in[1]->n_rows < shape_.source) {
    throw std::invalid_argument("a cache of op " + std::to_string(index) + " lacks the source");
  }
}

void Plan::check_slots(const Op& op, size_t index) const {
  const auto [by_slot, layer] = of_slots(op);
  if (by_slot == nullptr) return;
  const int64_t rows = by_slot->n_rows, slots = shape_.slots;
  if (slots < 1 || rows % slots != 0 || layer >= rows / slots) {
    throw std::invalid_argument("the gains of op " + std::to_string(index) + " lack slots");
  }
}

// A recurrent state has a part for each slot.
void Plan::check_states(const Op& op, size_t index) const {
  int64_t rows = 0;
  if (op.code == OpCode::kCausalConv) rows = op.params.causal_conv.taps - 1;
  if (op.code == OpCode::kDeltaRule) {
    rows = op.params.delta_rule.heads * op.params.delta_rule.key_dim;
  }
  if (rows > 0 && (shape_.states < 1 || op.out[1]->n_rows != shape_.states * rows)) {
    throw std::invalid_argument("the state of op " + std::to_string(index) + " lacks slots");
  }
}

// Ops that turn by the same angles share them.
void Plan::add_angles(Op& op) {
  const RopeAngles wanted(op);
  auto found = std::find_if(angles_.begin(), angles_.end(),
                            [&](const RopeAngles& a) { return a.same_as(wanted); });
  if (found == angles_.end()) {
    angles_.push_back(wanted);
    found = angles_.end() - 1;
    found->allocate();
  }
  op.angles = found->data();
}

size_t Plan::first_independent(size_t index) const {
  size_t first = index;
  while (first > 0 && !depends(ops_[index], ops_[first - 1])) --first;
  return first;
}

void Plan::start(const Step& step) {
  for (RopeAngles& angles : angles_) angles.compute(step);
}

}  // namespace llm
