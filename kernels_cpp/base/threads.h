// A persistent pool for work that comes in phases of independent tasks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace llm {

class Phases {
 public:
  virtual ~Phases() = default;
  // Sets up the next phase and returns its number of tasks, or 0 when the work is over. Called
  // when every task of the phase before is done, by one thread at a time.
  virtual uint32_t next_phase() noexcept = 0;
  virtual void run_task(uint32_t task, int worker) noexcept = 0;
};

// Threads take tasks one by one, so a thread that the system has put aside holds up the others
// only if it was in the middle of a task; nobody waits for it to arrive at a barrier.
class ThreadPool {
 public:
  // The caller of `run` is one of them. std::system_error if they cannot be started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void run(Phases& phases);
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

 private:
  void stop();
  void work(int worker);
  bool take_task(uint64_t seen, int worker);
  void next_phase(uint64_t number);
  void wait_for_change(uint64_t seen);
  void wake_sleepers();

  // number of the phase << 32 | tasks not yet taken
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> running_{false};
  std::atomic<bool> quit_{false};
  Phases* phases_ = nullptr;
  uint32_t phase_tasks_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> workers_;
};

}  // namespace llm
