#include "study/study.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "base/isa.h"

namespace llm {
namespace {

constexpr int64_t kTaskRows = 32;  // of c at most; a tile of b is copied once a task

// One phase of `tasks` tasks.
template <typename Task>
class OnePhase : public Phases {
 public:
  OnePhase(uint32_t tasks, const Task& task) : tasks_(tasks), task_(task) {}
  uint32_t next_phase() noexcept override { return std::exchange(tasks_, 0); }
  void run_task(uint32_t task, int) noexcept override { task_(task); }

 private:
  uint32_t tasks_;
  const Task& task_;
};

template <typename Task>
double seconds_of(ThreadPool& pool, int64_t tasks, const Task& task) {
  OnePhase<Task> phase(static_cast<uint32_t>(tasks), task);
  const auto began = std::chrono::steady_clock::now();
  pool.run(phase);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

auto form_named(const StudyTable& table, const std::string& name) {
  if (name == "naive") return table.naive;
  if (name == "loop_order") return table.loop_order;
  if (name == "blocked") return table.blocked;
  if (name == "registers") return table.registers;
  throw std::invalid_argument("there is no form " + name);
}

}  // namespace

KernelStudy::KernelStudy(const std::string& isa, int threads)
    : table_(study_table(isa)), pool_(threads) {}

double KernelStudy::run(const std::string& form, const StudyProduct& product, StudyRows rows) {
  const auto kernel = form_named(table_, form);
  const int64_t count = rows.end - rows.begin, threads = pool_.threads();
  const int64_t share = std::clamp<int64_t>((count + threads - 1) / threads, 1, kTaskRows);
  return seconds_of(pool_, (count + share - 1) / share, [&](uint32_t task) {
    const int64_t begin = rows.begin + task * share;
    kernel(product, {begin, std::min(begin + share, rows.end)});
  });
}

double KernelStudy::multiply_adds(int64_t rounds) {
  std::atomic<float> kept{0};
  const int64_t threads = pool_.threads();
  const double seconds = seconds_of(pool_, threads, [&](uint32_t) {
    kept.store(table_.multiply_adds(rounds), std::memory_order_relaxed);
  });
  return static_cast<double>(table_.adds_a_round * rounds * threads) / seconds;
}

}  // namespace llm
