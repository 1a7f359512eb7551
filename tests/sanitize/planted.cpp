// Defects on purpose: planted NAME does one, which a sanitizer must report. Built as the kernels
// are.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "base/simd.h"

namespace {

using namespace llm;
using namespace llm::LLM_ISA;

volatile float seen;

// A vector that reaches one value behind a tensor's end.
void read_behind(const float* values, int n) { seen = sum(load(values + n - kWidth + 1)); }
void write_behind(float* values, int n) { store(values + n - kWidth + 1, broadcast(1)); }
void half_behind(const Half* values, int n) { seen = sum(load(values + n - kWidth + 1)); }

const float* of_freed_buffer() {
  const AlignedBuffer gone(kCacheLine);
  return reinterpret_cast<const float*>(gone.data());
}

}  // namespace

int main(int, char** arguments) {
  const std::string name = arguments[1];
  constexpr int kValues = 4 * kWidth;
  if (name == "read") read_behind(std::vector<float>(kValues).data(), kValues);
  if (name == "write") write_behind(std::vector<float>(kValues).data(), kValues);
  if (name == "half") half_behind(std::vector<Half>(kValues).data(), kValues);
  AlignedBuffer buffer(4 * kValues);
  if (name == "buffer") read_behind(reinterpret_cast<const float*>(buffer.data()), kValues);
  if (name == "freed") seen = *of_freed_buffer();
  volatile int large = 0x7fffffff, shift = 32;
  if (name == "overflow") seen = static_cast<float>(large + 1);
  if (name == "shift") seen = static_cast<float>(1 << shift);
  if (name == "address") seen = *reinterpret_cast<const float*>(buffer.data() + 1);
  volatile double infinite = 1e300;
  if (name == "cast") seen = static_cast<float>(static_cast<int>(infinite));
  std::puts("nobody has noticed");
  return 0;
}
