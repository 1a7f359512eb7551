// A persistent pool for work that comes in phases of independent tasks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

// What the threads agree by. A test puts its own in place (tests/sanitize/): one that lets other
// threads run between two operations, or one without order.
#ifndef LLM_POOL_ATOMIC
#define LLM_POOL_ATOMIC std::atomic
#endif

namespace llm {

class Phases {
 public:
  virtual ~Phases() = default;
  // Sets up the next phase and returns its number of tasks, or 0 when the work is over. Called
  // when every task of the phase before is done, by one thread at a time.
  virtual uint32_t next_phase() noexcept = 0;
  virtual void run_task(uint32_t task, int worker) noexcept = 0;
};

struct Tasks {
  uint32_t begin, end;
  uint32_t count() const { return end - begin; }
};

// The tasks of a phase that nobody has taken yet, of one worker's share. Who takes some may look at
// what the phase's setting up wrote, as it came before `set`.
class alignas(64) TaskRange {
 public:
  void set(Tasks tasks) { left_ = pack(tasks); }
  Tasks take_first();      // one
  Tasks take_last_half();  // of an odd number, the larger one

 private:
  static uint64_t pack(Tasks tasks) { return uint64_t{tasks.end} << 32 | tasks.begin; }
  static Tasks unpack(uint64_t left) {
    return {static_cast<uint32_t>(left), static_cast<uint32_t>(left >> 32)};
  }

  LLM_POOL_ATOMIC<uint64_t> left_{0};
};

// Each thread has a share of a phase's tasks side by side, so that it reads memory in one stream,
// and takes from the others' when it is done: a thread that the system has put aside holds up the
// others only by the task that it is in the middle of.
class ThreadPool {
 public:
  // The caller of `run` is one of them. std::system_error if they cannot be started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void run(Phases& phases);
  int threads() const { return static_cast<int>(ranges_.size()); }
  // How many of them work from now on, at least one; the others sleep. From any thread.
  void use(int threads);

 private:
  void stop();
  void work(int worker);
  bool do_tasks(int worker);
  Tasks take(int worker);
  void rest(int worker);
  void next_phase(int worker);
  void wait_for_change(uint64_t seen);
  void wake_sleepers();

  alignas(64) LLM_POOL_ATOMIC<uint64_t> phase_{0};  // grows when there are tasks, or no more work
  alignas(64) LLM_POOL_ATOMIC<uint32_t> unfinished_{0};
  alignas(64) LLM_POOL_ATOMIC<int> sleepers_{0};
  LLM_POOL_ATOMIC<int> in_use_;  // workers below it work
  LLM_POOL_ATOMIC<bool> running_{false};
  LLM_POOL_ATOMIC<bool> quit_{false};
  Phases* phases_ = nullptr;
  std::vector<TaskRange> ranges_;  // [threads]
  std::mutex mutex_;
  std::condition_variable changed_, wanted_;
  std::vector<std::thread> workers_;
};

}  // namespace llm
