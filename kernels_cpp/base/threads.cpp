#include "base/threads.h"

#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace llm {
namespace {

using Clock = std::chrono::steady_clock;

// A phase of a decoded token lasts 1 to 50 us: shorter than falling asleep and being woken.
constexpr auto kSpin = std::chrono::microseconds(30);
constexpr auto kYield = std::chrono::microseconds(150);
constexpr int kPausesPerLook = 32;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

uint32_t tasks_left(uint64_t state) { return static_cast<uint32_t>(state); }
uint64_t phase_number(uint64_t state) { return state >> 32; }

}  // namespace

ThreadPool::ThreadPool(int threads) {
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { work(worker); });
    }
  } catch (...) {  // the system has no more threads: those that run must end first
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  quit_ = true;
  state_ = (phase_number(state_) + 1) << 32;
  wake_sleepers();
  for (std::thread& thread : workers_) thread.join();
}

void ThreadPool::run(Phases& phases) {
  phases_ = &phases;
  running_ = true;
  next_phase(phase_number(state_) + 1);
  while (true) {
    const uint64_t seen = state_;
    if (tasks_left(seen) > 0) {
      take_task(seen, 0);
    } else if (!running_) {
      return;
    } else {
      wait_for_change(seen);
    }
  }
}

// The state is read before quit_: who has seen the state that `stop` sets would wait for ever.
void ThreadPool::work(int worker) {
  while (true) {
    const uint64_t seen = state_;
    if (quit_) return;
    if (tasks_left(seen) > 0) {
      take_task(seen, worker);
    } else {
      wait_for_change(seen);
    }
  }
}

// Who has taken a task may look at phases_ and phase_tasks_: they stay until the task is done.
bool ThreadPool::take_task(uint64_t seen, int worker) {
  if (!state_.compare_exchange_strong(seen, seen - 1)) return false;
  phases_->run_task(phase_tasks_ - tasks_left(seen), worker);
  if (unfinished_.fetch_sub(1) == 1) next_phase(phase_number(seen) + 1);
  return true;
}

void ThreadPool::next_phase(uint64_t number) {
  const uint32_t tasks = phases_->next_phase();
  phase_tasks_ = tasks;
  unfinished_ = tasks;
  if (tasks == 0) running_ = false;
  state_ = number << 32 | tasks;
  if (tasks != 1) wake_sleepers();  // a single task is for whoever is awake: us
}

void ThreadPool::wake_sleepers() {
  if (sleepers_ == 0) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
  }
  changed_.notify_all();
}

void ThreadPool::wait_for_change(uint64_t seen) {
  const auto began = Clock::now();
  for (auto waited = Clock::duration::zero(); waited < kYield; waited = Clock::now() - began) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (state_.load(std::memory_order_acquire) != seen) return;
      pause();
    }
    if (waited > kSpin) std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  ++sleepers_;
  changed_.wait(lock, [&] { return state_ != seen; });
  --sleepers_;
}

}  // namespace llm
