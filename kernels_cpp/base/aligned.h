// Memory that begins on a cache line and is zero at first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

// A sanitizer knows where memory from the heap ends, and nothing of pages (tests/sanitize/).
#if (defined(__unix__) || defined(__APPLE__)) && !defined(LLM_BUFFERS_ON_HEAP)
#define LLM_BUFFERS_ARE_PAGES
#include <sys/mman.h>
#endif

namespace llm {

constexpr size_t kCacheLine = 64;  // bytes
constexpr size_t kLargePage = size_t{2} << 20;

#if defined(LLM_BUFFERS_ARE_PAGES)

// Pages of its own: untouched until first use, so that a long KV cache costs what it holds, and
// back with the system at once. calloc does so only until blocks as large have been freed.
inline void* take_zeroed(size_t bytes) {
  if (bytes == 0) bytes = 1;  // mmap refuses none
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  return block;
}

inline void give_back(void* block, size_t bytes) {
  if (block != nullptr) munmap(block, bytes == 0 ? 1 : bytes);
}

// Asks for large pages, of which a processor knows the places of more memory: a stream through
// small ones is a tenth slower. Only a wish, and only Linux hears it.
inline void wish_for_large_pages(void* block, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  madvise(block, bytes, MADV_HUGEPAGE);
#endif
  (void)block, (void)bytes;
}

#else

inline void wish_for_large_pages(void*, size_t) {}

inline void* take_zeroed(size_t bytes) {
  void* block = ::operator new(bytes, std::align_val_t{kCacheLine}, std::nothrow);
  if (block == nullptr) throw std::bad_alloc();
  return std::memset(block, 0, bytes);
}

inline void give_back(void* block, size_t) {
  ::operator delete(block, std::align_val_t{kCacheLine});
}

#endif

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes) : block_(take_zeroed(bytes)), size_(bytes) {}
  AlignedBuffer(AlignedBuffer&& other) noexcept : block_(other.block_), size_(other.size_) {
    other.block_ = nullptr;
    other.size_ = 0;
  }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~AlignedBuffer() { give_back(block_, size_); }

  uint8_t* data() const { return static_cast<uint8_t*>(block_); }
  size_t size() const { return size_; }
  // Before its first use; from a byte on.
  void wish_for_large_pages(size_t first = 0) {
    const size_t whole = (first + kLargePage - 1) / kLargePage * kLargePage;
    if (whole < size_) llm::wish_for_large_pages(data() + whole, size_ - whole);
  }

 private:
  void* block_ = nullptr;
  size_t size_ = 0;
};

}  // namespace llm
