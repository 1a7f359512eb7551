// Memory that begins on a cache line and is zero at first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace llm {

constexpr size_t kCacheLine = 64;  // bytes

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // calloc leaves large blocks untouched until first use: a long KV cache costs what it holds.
  explicit AlignedBuffer(size_t bytes) : block_(std::calloc(bytes + kCacheLine, 1)), size_(bytes) {
    if (block_ == nullptr) throw std::bad_alloc();
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept : block_(other.block_), size_(other.size_) {
    other.block_ = nullptr;
    other.size_ = 0;
  }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~AlignedBuffer() { std::free(block_); }

  uint8_t* data() const {
    const auto address = reinterpret_cast<uintptr_t>(block_);
    return reinterpret_cast<uint8_t*>((address + kCacheLine - 1) / kCacheLine * kCacheLine);
  }
  size_t size() const { return size_; }

 private:
  void* block_ = nullptr;
  size_t size_ = 0;
};

}  // namespace llm
