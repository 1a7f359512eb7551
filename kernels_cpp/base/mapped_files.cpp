#include "base/mapped_files.h"

#include <stdexcept>

#if defined(__unix__) || defined(__APPLE__)

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <iterator>

namespace llm {
namespace {

constexpr int kMappings = 1 << 14;  // a model may have 10,000 shards
// A mapping of zeros does not fault again; but each thread may have faulted before it was there. A
// write to it faults for ever, and is a defect that has to end the program.
constexpr int kMostFaults = 4096;

#if defined(__APPLE__)
constexpr int kSignals[] = {SIGBUS, SIGSEGV};
#else
constexpr int kSignals[] = {SIGBUS};
#endif

// Read by a signal handler, so without locks. An entry is free where begin is 0, and in use where
// end is not. `end` is written last when a mapping comes and first when it goes.
struct Entry {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<int> faults{0};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

Entry entries[kMappings];
struct sigaction before[std::size(kSignals)];

// Whether the address lies in a guarded mapping, all of which is zeros now. mmap is not on POSIX's
// list of what a handler may call, but is a bare system call: it takes no lock of this process and
// touches no heap. The thread that faulted is reading the mapping, so nobody is letting it go.
bool give_zeros(uintptr_t address) {
  for (Entry& entry : entries) {
    const uintptr_t end = entry.end.load(), begin = entry.begin.load();
    if (address < begin || address >= end || entry.end.load() != end) continue;
    if (entry.faults.fetch_add(1) >= kMostFaults) return false;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    void* at = reinterpret_cast<void*>(begin);
    return mmap(at, end - begin, PROT_READ, flags, -1, 0) != MAP_FAILED;
  }
  return false;
}

// What is not ours happens again under the handler that was there before this one.
void on_fault(int number, siginfo_t* info, void*) {
  const int error = errno;
  const bool sent = info->si_code <= 0;  // by kill or raise: there is no address
  if (sent || !give_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      if (kSignals[i] == number) sigaction(number, &before[i], nullptr);
    }
    if (sent) raise(number);  // is delivered when this returns
  }
  errno = error;
}

bool install() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before[i]);
  return true;
}

}  // namespace

MappingGuard::MappingGuard(const void* begin, size_t bytes) {
  static const bool installed = install();  // late: handlers of a debugger's kind come first
  (void)installed;
  const auto from = reinterpret_cast<uintptr_t>(begin);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int slot = 0; slot < kMappings; ++slot) {
    uintptr_t none = 0;
    if (!entries[slot].begin.compare_exchange_strong(none, from)) continue;
    entries[slot].end.store((from + bytes + page - 1) / page * page);
    slot_ = slot;
    return;
  }
  throw std::runtime_error("too many files are mapped at once");
}

void MappingGuard::release() {
  if (slot_ < 0) return;
  Entry& entry = entries[slot_];
  entry.end.store(0);
  entry.faults.store(0);
  entry.begin.store(0);
  slot_ = -1;
}

bool MappingGuard::lost() const { return slot_ >= 0 && entries[slot_].faults.load() > 0; }

}  // namespace llm

#else  // a file that is mapped cannot be shrunk

namespace llm {

MappingGuard::MappingGuard(const void*, size_t) {}
void MappingGuard::release() {}
bool MappingGuard::lost() const { return slot_ >= 0; }

}  // namespace llm

#endif
