#include "plan/interpreter.h"

#include <algorithm>
#include <cstring>

namespace llm {

Interpreter::Interpreter(const KernelTable& kernels, int threads)
    : kernels_(kernels), pool_(threads), workers_(threads) {}

size_t Interpreter::add_plan(Plan plan) {
  size_t needed = 0, shared = shared_.size();
  for (const Op& op : plan.ops()) {
    const Kernel& kernel = kernels_.kernels[static_cast<int>(op.code)];
    needed = std::max(needed, kernel.scratch_bytes(op));
    if (kernel.finish != nullptr) shared = std::max(shared, kernel.shared_bytes(op));
  }
  if (shared > shared_.size()) shared_ = AlignedBuffer(shared);
  if (needed > workers_[0].scratch.size()) {
    for (Worker& worker : workers_) {
      worker.scratch = AlignedBuffer(needed);
#if defined(LLM_BUFFERS_ON_HEAP)  // under a sanitizer: what no kernel wrote is no harmless zero
      std::memset(worker.scratch.data(), 0x6d, needed);
#endif
    }
  }
  plans_.push_back(std::make_unique<Plan>(std::move(plan)));
  return plans_.size() - 1;
}

size_t Interpreter::run(size_t plan, const int32_t* words, size_t first, size_t last,
                        std::chrono::microseconds budget) {
  plan_ = plans_.at(plan).get();
  plan_number_ = plan;
  step_ = read_step(words, plan_->shape(), pool_.threads());
  plan_->start(step_);
  deadline_ = std::chrono::steady_clock::now() + budget;
  next_ = first;
  last_ = std::min(last, plan_->ops().size());
  first_ = first;
  n_shares_ = 0;
  pool_.run(*this);
  return next_;
}

const Kernel& Interpreter::kernel_of(size_t op) const {
  return kernels_.kernels[static_cast<int>(plan_->ops()[op].code)];
}

int64_t Interpreter::tasks_of(size_t op) const {
  return kernel_of(op).n_tasks(plan_->ops()[op], step_);
}

void Interpreter::finish_phase() noexcept {
  if (n_shares_ == 0 || serial_) return;
  const size_t op = shares_[0].op;
  const auto finish = kernel_of(op).finish;
  if (finish != nullptr) finish(plan_->ops()[op], step_, shared_.data());
}

// Small ops in a row are one task. Larger ones that do not depend on each other (the products
// for q, k and v) share a phase, so that no thread waits between them.
uint32_t Interpreter::next_phase() noexcept {
  const bool begun = n_shares_ > 0;
  finish_phase();
  if (next_ == last_ || (begun && std::chrono::steady_clock::now() > deadline_)) return 0;
  ++phase_;
  first_ = next_;
  n_shares_ = 0;
  int64_t tasks = tasks_of(next_);
  serial_ = tasks <= 1;
  if (serial_) {
    n_shares_ = 1;
    while (++next_ < last_ && tasks_of(next_) <= 1) continue;
    return 1;
  }
  uint32_t total = 0;
  do {
    shares_[n_shares_++] = {next_++, static_cast<uint32_t>(tasks)};
    total += static_cast<uint32_t>(tasks);
    if (next_ == last_ || n_shares_ == kMaxShares) break;
    if (kernel_of(next_ - 1).finish != nullptr || kernel_of(next_).finish != nullptr) break;
    tasks = tasks_of(next_);
  } while (tasks > 1 && plan_->independent(first_, next_));
  return total;
}

// Kernels compare Task::kept with 8 bytes of scratch in which others may have left anything: small
// numbers would be found in digits by chance. Steps of 2^64 / golden ratio use all 64 bits, and no
// number comes twice.
constexpr uint64_t kNextKept = 0x9E3779B97F4A7C15;

uint64_t Interpreter::Worker::still_kept(uint64_t now, const Op& op) {
  if (phase != now || code != op.code || input != op.in[0]) kept += kNextKept;
  phase = now;
  code = op.code;
  input = op.in[0];
  return kept;
}

void Interpreter::run_task(uint32_t task, int worker) noexcept {
  if (serial_) {
    for (size_t op = first_; op < next_; ++op, ++phase_) run_op(op, 0, 1, worker);
    return;
  }
  const Share* share = shares_;
  for (; task >= share->n_tasks; ++share) task -= share->n_tasks;
  run_op(share->op, task, share->n_tasks, worker);
}

void Interpreter::run_op(size_t index, uint32_t task, uint32_t n_tasks, int worker) {
  const Op& op = plan_->ops()[index];
  const auto run = kernels_.kernels[static_cast<int>(op.code)].run;
  Worker& own = workers_[worker];
  const uint64_t kept = own.still_kept(phase_, op);
  const Task piece = {task, n_tasks, own.scratch.data(), shared_.data(), kept};
  if (!measuring_) return run(op, step_, piece);
  const auto began = std::chrono::steady_clock::now();
  run(op, step_, piece);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
  busy_[plan_number_][worker][index] += taken.count();
}

void Interpreter::measure(bool wanted) {
  measuring_ = wanted;
  busy_.clear();
  for (const auto& plan : plans_) {
    busy_.emplace_back(pool_.threads(), std::vector<double>(plan->ops().size()));
  }
}

std::vector<double> Interpreter::busy_seconds(size_t plan) const {
  std::vector<double> sum(plans_.at(plan)->ops().size());
  for (const std::vector<double>& worker : busy_.at(plan)) {
    for (size_t op = 0; op < sum.size(); ++op) sum[op] += worker[op];
  }
  return sum;
}

}  // namespace llm
