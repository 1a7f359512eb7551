#pragma once

#include <cstddef>

namespace llm {

// Speed of a plain read of `bytes` of memory by `threads` threads at once, in GB/s (10^9 bytes);
// the best of a few passes. std::bad_alloc if there is no such memory.
double read_bandwidth(size_t bytes, int threads);

}  // namespace llm
