// Weights asked for while the ones before them are in use.
#pragma once

#include <cstdint>

namespace llm {
namespace LLM_ISA {

// Memory for the second cache, a share with every call: all at once would wait for each other.
// `rows` runs of `bytes`, `stride` apart.
class Ahead {
 public:
  Ahead(const uint8_t* first, int64_t rows, int64_t bytes, int64_t stride, int64_t calls)
      : row_(first), left_(rows), bytes_(bytes), stride_(stride) {
    share_ = (rows * ((bytes + 63) / 64) + calls - 1) / calls;
  }
  void ask() {
    for (int64_t i = 0; i < share_ && left_ > 0; ++i) {
      __builtin_prefetch(row_ + at_, 0, 2);
      at_ += 64;
      if (at_ < bytes_) continue;
      at_ = 0;
      row_ += stride_;
      --left_;
    }
  }

 private:
  const uint8_t* row_;
  int64_t left_, bytes_, stride_, share_, at_ = 0;
};

}  // namespace LLM_ISA
}  // namespace llm
