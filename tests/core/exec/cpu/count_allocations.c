/* Preloaded into a process: counts what the thread that asks has allocated. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static __thread unsigned long calls;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

unsigned long allocations(void) { return calls; }

void *malloc(size_t size) {
  ++calls;
  return __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
  ++calls;
  return __libc_calloc(n, size);
}
void *realloc(void *old, size_t size) {
  ++calls;
  return __libc_realloc(old, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
  ++calls;
  return __libc_memalign(alignment, size);
}
