#include "base/threads.h"

#include <algorithm>
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

}  // namespace

Tasks TaskRange::take_first() {
  uint64_t left = left_.load();
  while (true) {
    const Tasks tasks = unpack(left);
    if (tasks.count() == 0) return tasks;
    if (left_.compare_exchange_weak(left, pack({tasks.begin + 1, tasks.end}))) {
      return {tasks.begin, tasks.begin + 1};
    }
  }
}

Tasks TaskRange::take_last_half() {
  uint64_t left = left_.load();
  while (true) {
    const Tasks tasks = unpack(left);
    const uint32_t middle = tasks.begin + tasks.count() / 2;
    if (tasks.count() == 0) return tasks;
    if (left_.compare_exchange_weak(left, pack({tasks.begin, middle}))) return {middle, tasks.end};
  }
}

ThreadPool::ThreadPool(int threads) : in_use_(threads), ranges_(threads) {
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
  ++phase_;
  wake_sleepers();
  use(threads());
  for (std::thread& thread : workers_) thread.join();
}

void ThreadPool::use(int threads) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    in_use_ = std::clamp(threads, 1, this->threads());
  }
  wanted_.notify_all();
}

void ThreadPool::rest(int worker) {
  std::unique_lock<std::mutex> lock(mutex_);
  wanted_.wait(lock, [&] { return worker < in_use_; });
}

void ThreadPool::run(Phases& phases) {
  phases_ = &phases;
  running_ = true;
  next_phase(0);
  while (true) {
    const uint64_t seen = phase_;
    if (!running_) return;
    if (!do_tasks(0)) wait_for_change(seen);
  }
}

// The phase is read before quit_: who has seen the one that `stop` sets would wait for ever.
void ThreadPool::work(int worker) {
  while (true) {
    const uint64_t seen = phase_;
    if (quit_) return;
    if (worker >= in_use_) {
      rest(worker);
    } else if (!do_tasks(worker)) {
      wait_for_change(seen);
    }
  }
}

// Whether there were any. The phase lasts until they are reported, so all are of one phase.
bool ThreadPool::do_tasks(int worker) {
  uint32_t done = 0;
  for (Tasks tasks = take(worker); tasks.count() > 0; tasks = take(worker)) {
    for (uint32_t task = tasks.begin; task < tasks.end; ++task) phases_->run_task(task, worker);
    done += tasks.count();
  }
  if (done == 0) return false;
  if (unfinished_.fetch_sub(done) == done) next_phase(worker);
  return true;
}

// What a worker leaves when it goes to rest, others take.
Tasks ThreadPool::take(int worker) {
  if (worker >= in_use_) return {0, 0};
  Tasks tasks = ranges_[worker].take_first();
  for (int i = 1; i < threads() && tasks.count() == 0; ++i) {
    tasks = ranges_[(worker + i) % threads()].take_last_half();
  }
  return tasks;
}

// A single task is run by this thread: its data lie in its cache.
void ThreadPool::next_phase(int worker) {
  uint32_t tasks = phases_->next_phase();
  for (; tasks == 1; tasks = phases_->next_phase()) phases_->run_task(0, worker);
  unfinished_ = tasks;
  if (tasks == 0) {
    running_ =
        false;  // from here on the caller may have begun the next work: its ranges are not ours
  } else {
    const int shares = in_use_;
    const auto edge = [&](int of) { return static_cast<uint32_t>(uint64_t{tasks} * of / shares); };
    for (int i = 0; i < shares; ++i) ranges_[i].set({edge(i), edge(i + 1)});
  }
  ++phase_;
  wake_sleepers();
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
      if (phase_.load(std::memory_order_acquire) != seen) return;
      pause();
    }
    if (waited > kSpin) std::this_thread::yield();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  ++sleepers_;
  changed_.wait(lock, [&] { return phase_ != seen; });
  --sleepers_;
}

}  // namespace llm
