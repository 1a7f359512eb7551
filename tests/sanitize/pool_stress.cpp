// The thread pool under stress: pool_stress ROUNDS. Ends with 0 after a line a scenario, or aborts.
//
// Tasks read and write plain memory that the pool alone keeps apart: what it does not order is a
// race for ThreadSanitizer, and a task lost or done twice is a wrong sum for us. Tasks are
// noexcept, so the one exception is that of a system without threads.
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <vector>

#include "base/threads.h"

namespace {

using llm::ThreadPool;

std::atomic<int> threads_left{1 << 30};  // that the system still starts

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "pool_stress: %s\n", what);
  std::abort();
}

// A few hundred steps of arithmetic a unit, which no compiler leaves out.
uint32_t compute(uint32_t seed, uint32_t units) {
  for (uint32_t i = 0; i < 64 * units; ++i) seed = seed * 1664525u + 1013904223u;
  return seed;
}

// Phases of given numbers of tasks. A task reads two cells that others wrote in the phase before,
// and writes its own.
class Cells : public llm::Phases {
 public:
  explicit Cells(std::vector<uint32_t> phases, uint32_t (*units)(uint32_t) = nullptr)
      : phases_(std::move(phases)), units_(units) {
    for (const uint32_t tasks : phases_) largest_ = tasks > largest_ ? tasks : largest_;
    before_.assign(largest_, 1);
    now_.assign(largest_, 0);
    times_.assign(largest_, 0);
  }

  uint32_t next_phase() noexcept override {
    if (at_ > 0) finish(phases_[at_ - 1]);
    return at_ < phases_.size() ? phases_[at_++] : (++at_, 0);
  }
  void run_task(uint32_t task, int) noexcept override {
    const uint32_t units = units_ == nullptr ? 0 : units_(task);
    now_[task] = compute(value(task), units);
    ++times_[task];
  }
  void check() const {
    size_t phases = 0;
    while (phases < phases_.size() && phases_[phases] > 0) ++phases;
    expect(at_ == phases + 1, "not all phases were begun");
    expect(right_, "a task was lost or done twice");
  }

 private:
  uint32_t value(uint32_t task) const {
    return before_[(task + 1) % largest_] + 3 * before_[(task + largest_ / 2) % largest_] + task;
  }
  void finish(uint32_t tasks) {
    for (uint32_t task = 0; task < tasks; ++task) {
      const uint32_t units = units_ == nullptr ? 0 : units_(task);
      right_ = right_ && times_[task] == 1 && now_[task] == compute(value(task), units);
      times_[task] = 0;
    }
    for (uint32_t task = 0; task < tasks; ++task) before_[task] = now_[task];
  }

  std::vector<uint32_t> phases_;  // tasks of each; the first without any is the end
  uint32_t (*units_)(uint32_t);   // of work, by task
  std::vector<uint32_t> before_, now_, times_;
  uint32_t largest_ = 1;
  size_t at_ = 0;
  bool right_ = true;
};

void run(ThreadPool& pool, std::vector<uint32_t> phases, uint32_t (*units)(uint32_t) = nullptr) {
  Cells cells(std::move(phases), units);
  pool.run(cells);
  cells.check();
}

uint32_t uneven(uint32_t task) { return task % 13 == 0 ? 40 : task % 3; }

void many_small_regions(int rounds) {
  ThreadPool pool(4);
  for (int i = 0; i < 300 * rounds; ++i) {
    const auto n = static_cast<uint32_t>(i);
    run(pool, {n % 6, 2 + n % 3, n % 4, 3});
  }
}

void uneven_work(int rounds) {
  ThreadPool pool(4);
  for (int i = 0; i < 10 * rounds; ++i) run(pool, {97, 13, 1, 128, 2, 1, 1, 61}, uneven);
}

// Long enough between two regions that all fall asleep.
void sleeping_threads(int rounds) {
  ThreadPool pool(3);
  for (int i = 0; i < 10 * rounds; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    run(pool, {5, 1, 9});
  }
}

// A region in a task: a pool of its own, as the quantizer's beside an executor's.
class Nested : public llm::Phases {
 public:
  explicit Nested(std::vector<uint32_t> tasks) : tasks_(std::move(tasks)) {}
  uint32_t next_phase() noexcept override { return at_ < tasks_.size() ? tasks_[at_++] : 0; }
  void run_task(uint32_t task, int) noexcept override {
    ThreadPool inner(1 + static_cast<int>(task % 3));
    run(inner, {7 + task, 1, 5});
  }

 private:
  std::vector<uint32_t> tasks_;
  size_t at_ = 0;
};

void nested_regions(int rounds) {
  ThreadPool pool(3);
  for (int i = 0; i < 2 * rounds; ++i) {
    Nested work({5, 1, 4});
    pool.run(work);
  }
}

// Threads come and go by the wish of two others, while steps run.
void changing_threads(int rounds) {
  ThreadPool pool(4);
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  for (int step = 1; step <= 2; ++step) {
    others.emplace_back([&pool, &done, step] {
      for (int i = 0; !done; i += step) {
        pool.use(i % 6);
        std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < 30 * rounds; ++i) run(pool, {9, 3, 1, 17, 4}, uneven);
  done = true;
  for (std::thread& other : others) other.join();
}

// Callers of one pool in turn, as an engine that goes on with a new thread.
void changing_callers(int rounds) {
  ThreadPool pool(3);
  std::mutex turn;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 20 * rounds; ++i) {
        const std::lock_guard<std::mutex> mine(turn);
        run(pool, {static_cast<uint32_t>(3 + caller), 8, 1});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Ended while threads begin, spin, sleep and rest.
void short_lives(int rounds) {
  for (int i = 0; i < 20 * rounds; ++i) {
    ThreadPool pool(1 + i % 5);
    if (i % 3 == 1) pool.use(1);
    if (i % 2 == 0) run(pool, {11, 2});
    if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// A system without threads: those that were started end, and the pool that follows works.
void refused_threads(int rounds) {
  for (int i = 0; i < 4 * rounds; ++i) {
    threads_left = i % 4;
    try {
      ThreadPool pool(6);
      expect(false, "a pool was made without its threads");
    } catch (const std::system_error&) {
    }
    threads_left = 1 << 30;
    ThreadPool pool(3);
    run(pool, {10, 4});
  }
}

}  // namespace

// Stands before the system's own, and before the sanitizer's, which it calls.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  return create(thread, attributes, start, argument);
}

int main(int count, char** arguments) {
  const int rounds = count == 2 ? std::atoi(arguments[1]) : 0;
  if (rounds < 1) return std::fputs("usage: pool_stress ROUNDS\n", stderr), 2;
  const struct {
    const char* name;
    void (*run)(int);
  } scenarios[] = {
      {"many small regions", many_small_regions},
      {"uneven work", uneven_work},
      {"sleeping threads", sleeping_threads},
      {"nested regions", nested_regions},
      {"changing threads", changing_threads},
      {"changing callers", changing_callers},
      {"short lives", short_lives},
      {"refused threads", refused_threads},
  };
  for (const auto& scenario : scenarios) {
    scenario.run(rounds);
    std::printf("%s\n", scenario.name);
    std::fflush(stdout);
  }
  return 0;
}
