// The pool's atomics under test: LLM_POOL_ATOMIC of the stress program.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace stress {

// Without order nothing that one thread wrote is there for another: the planted race.
#if defined(LLM_PLANT_RACE)
constexpr auto kOrder = std::memory_order_relaxed;
#else
constexpr auto kOrder = std::memory_order_seq_cst;
#endif

inline uint32_t next_random() {
  static std::atomic<uint32_t> threads{1};
  thread_local uint32_t state = 2654435761u * threads.fetch_add(1, std::memory_order_relaxed) | 1;
  state ^= state << 13;
  state ^= state >> 17;
  return state ^= state << 5;
}

// As if the system put the thread aside here.
inline void maybe_put_aside() {
  if (next_random() % 16 == 0) std::this_thread::yield();
}

// std::atomic, where now and then other threads run between two operations: seen otherwise once in
// hours.
template <typename T>
class Atomic {
 public:
  Atomic(T value) : value_(value) {}

  T load(std::memory_order wanted = kOrder) const {
    maybe_put_aside();
    return value_.load(kOrder == std::memory_order_relaxed ? kOrder : wanted);
  }
  operator T() const { return load(); }
  T operator=(T value) {
    maybe_put_aside();
    value_.store(value, kOrder);
    maybe_put_aside();
    return value;
  }
  T fetch_sub(T count) {
    maybe_put_aside();
    return value_.fetch_sub(count, kOrder);
  }
  T operator++() { return value_.fetch_add(1, kOrder) + 1; }
  T operator--() { return value_.fetch_sub(1, kOrder) - 1; }
  bool compare_exchange_weak(T& expected, T wanted) {
    maybe_put_aside();
    return value_.compare_exchange_weak(expected, wanted, kOrder, kOrder);
  }

 private:
  std::atomic<T> value_;
};

}  // namespace stress
