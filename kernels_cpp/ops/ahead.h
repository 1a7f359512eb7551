// Weights asked for while the ones before them are in use.
#pragma once

#include <cstdint>

namespace llm {
namespace LLM_ISA {

// Memory for the second cache, a share with every call: all at once would wait for each other.
class Ahead {
 public:
  Ahead(const uint8_t* first, int64_t bytes, int64_t calls)
      : next_(first), end_(first + bytes), share_((bytes / calls + 63) / 64 * 64) {}
  void ask() {
    const uint8_t* until = end_ - next_ < share_ ? end_ : next_ + share_;
    for (; next_ < until; next_ += 64) __builtin_prefetch(next_, 0, 2);
  }

 private:
  const uint8_t *next_, *end_;
  int64_t share_;
};

}  // namespace LLM_ISA
}  // namespace llm
