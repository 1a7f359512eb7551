// Runs steps of plans on a pool of threads: one call a step, one parallel region a step.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/aligned.h"
#include "base/threads.h"
#include "plan/plan.h"

namespace llm {

class Interpreter : private Phases {
 public:
  Interpreter(const KernelTable& kernels, int threads);

  // Takes over the plan and returns its number.
  size_t add_plan(Plan plan);
  const StepShape& shape(size_t plan) const { return plans_.at(plan)->shape(); }

  // Runs ops first..last-1 of a plan for the step that `words` describe; stops early, between two
  // ops, when `budget` is over. Returns the number of the op to go on with, `last` when done.
  size_t run(size_t plan, const int32_t* words, size_t first, size_t last,
             std::chrono::microseconds budget);

  int threads() const { return pool_.threads(); }
  void use(int threads) { pool_.use(threads); }
  // What each thread has of its own for the tasks of all plans, and what they share.
  size_t worker_bytes() const { return workers_[0].scratch.size(); }
  size_t shared_bytes() const { return shared_.size(); }

  // Measure from now on how long threads are busy with each op, or stop measuring.
  void measure(bool wanted);
  // Of a plan: seconds by op, of all threads together, since `measure`.
  std::vector<double> busy_seconds(size_t plan) const;

 private:
  uint32_t next_phase() noexcept override;
  void run_task(uint32_t task, int worker) noexcept override;
  int64_t tasks_of(size_t op) const;
  const Kernel& kernel_of(size_t op) const;
  void finish_phase() noexcept;
  void run_op(size_t op, uint32_t task, uint32_t n_tasks, int worker);

  struct alignas(kCacheLine) Worker {
    AlignedBuffer scratch{0};
    uint64_t phase = 0;                           // of its last task
    OpCode code = static_cast<OpCode>(kOpCount);  // none
    const Tensor* input = nullptr;
    uint64_t kept = 0;
    uint64_t still_kept(uint64_t phase, const Op& op);  // see Task
  };
  struct Share {  // the tasks of one op within the phase
    size_t op;
    uint32_t n_tasks;
  };
  static constexpr size_t kMaxShares = 8;

  KernelTable kernels_;
  ThreadPool pool_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<Worker> workers_;
  AlignedBuffer shared_{0};  // of the op with a finish, alone in its phase
  Plan* plan_ = nullptr;
  size_t plan_number_ = 0;
  Step step_ = {};
  std::chrono::steady_clock::time_point deadline_;
  size_t first_ = 0, next_ = 0, last_ = 0;  // first_, next_: ops of the phase; last_: of the run
  uint64_t phase_ = 0;                      // counts those of all runs
  bool serial_ = false;                     // the phase is a run of small ops for one thread
  Share shares_[kMaxShares];
  size_t n_shares_ = 0;
  bool measuring_ = false;
  std::vector<std::vector<std::vector<double>>> busy_;  // seconds [plan][worker][op]
};

}  // namespace llm
