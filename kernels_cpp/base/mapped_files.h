// Mapped files that shrink: a read behind the new end, or of a page that a failing disk does not
// give, is a signal that would end the program. Here the read finds zeros instead, and the mapping
// is lost: its users ask before a number that was made of it counts.
#pragma once

#include <cstddef>

namespace llm {

// A mapping of a file [begin, begin + bytes), guarded while this lives. Released before the mapping
// goes: the next one may lie at the same addresses. Not for two threads at once.
class MappingGuard {
 public:
  // Throws std::runtime_error where too many mappings are guarded.
  MappingGuard(const void* begin, size_t bytes);
  ~MappingGuard() { release(); }
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  void release();
  bool lost() const;  // whether a read found zeros; false once released

 private:
  int slot_ = -1;
};

}  // namespace llm
