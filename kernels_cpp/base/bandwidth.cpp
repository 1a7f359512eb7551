#include "base/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/aligned.h"
#include "base/threads.h"

namespace llm {
namespace {

constexpr int kPasses = 3;
constexpr size_t kPieceBytes = 1 << 20;

uint64_t sum_words(const uint8_t* data, size_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  uint64_t sums[8] = {};
  for (size_t i = 0; i < bytes / sizeof(uint64_t); i += 8) {
    for (int j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  return sum;
}

// One phase a pass, a piece a task.
class ReadPasses : public Phases {
 public:
  explicit ReadPasses(const AlignedBuffer& memory) : memory_(memory) {}

  uint32_t next_phase() noexcept override {
    const auto now = std::chrono::steady_clock::now();
    if (pass_ > 0) best_ = std::min(best_, std::chrono::duration<double>(now - began_).count());
    began_ = now;
    return pass_++ < kPasses ? static_cast<uint32_t>(memory_.size() / kPieceBytes) : 0;
  }
  void run_task(uint32_t task, int) noexcept override {
    seen_ += sum_words(memory_.data() + task * kPieceBytes, kPieceBytes);
  }
  double best_seconds() const { return best_; }

 private:
  const AlignedBuffer& memory_;
  std::chrono::steady_clock::time_point began_;
  double best_ = 1e30;
  int pass_ = 0;
  std::atomic<uint64_t> seen_{0};  // keeps the reads from being left out
};

}  // namespace

double read_bandwidth(size_t bytes, int threads) {
  const size_t pieces = std::max<size_t>(1, bytes / kPieceBytes);
  AlignedBuffer memory(pieces * kPieceBytes);
  memory.wish_for_large_pages();                 // as converted weights have them
  std::memset(memory.data(), 1, memory.size());  // else all pages are the one page of zeros
  ThreadPool pool(threads);
  ReadPasses passes(memory);
  pool.run(passes);
  return static_cast<double>(memory.size()) / passes.best_seconds() / 1e9;
}

}  // namespace llm
