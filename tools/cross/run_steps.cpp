// Runs steps of a plan that another machine laid out: reads a file of tools/cross/aarch64.py and
// writes the logits of each step.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "base/isa.h"
#include "plan/interpreter.h"

namespace {

std::FILE* file;

template <typename T>
std::vector<T> read(size_t count) {
  std::vector<T> values(count);
  if (std::fread(values.data(), sizeof(T), count, file) != count) std::abort();
  return values;
}

int64_t number() { return read<int64_t>(1)[0]; }

}  // namespace

int main(int, char** arguments) {
  const std::string isa = arguments[1];
  file = std::fopen(arguments[2], "rb");
  std::FILE* out = std::fopen(arguments[3], "wb");
  if (file == nullptr || out == nullptr) return 1;
  const std::vector<uint8_t> bytes = read<uint8_t>(number());
  llm::AlignedBuffer memory(bytes.size());
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  llm::Interpreter interpreter(llm::kernel_table(isa), 2);
  std::vector<size_t> n_ops;
  for (int64_t plans = number(); plans > 0; --plans) {
    auto tensors = read<llm::TensorRow>(number());
    for (llm::TensorRow& t : tensors) t.address += reinterpret_cast<int64_t>(memory.data());
    n_ops.push_back(number());
    const auto ops = read<llm::OpRow>(n_ops.back());
    const auto params = read<double>(n_ops.back() * llm::kMaxParams);
    const auto shape = read<llm::StepShape>(1)[0];
    interpreter.add_plan(llm::Plan(tensors, ops, params, shape));
  }
  for (int64_t steps = number(); steps > 0; --steps) {
    const int64_t plan = number(), at = number(), size = number();
    const auto words = read<int32_t>(number());
    interpreter.run(plan, words.data(), 0, n_ops[plan], std::chrono::hours(1));
    std::fwrite(memory.data() + at, 1, size, out);
  }
  return std::fclose(out);
}
