// The function tables: one namespace an instruction set, all from the same sources. Null where a
// build was left out (LLM_ISAS in CMakeLists.txt).
#pragma once

#include "plan/op.h"

namespace llm {

#define LLM_DECLARE_TABLE(isa)               \
  namespace isa {                            \
  KernelTable table() __attribute__((weak)); \
  }

#if defined(__x86_64__)
LLM_DECLARE_TABLE(scalar)
LLM_DECLARE_TABLE(avx2)
LLM_DECLARE_TABLE(avxvnni)
LLM_DECLARE_TABLE(avx512)
LLM_DECLARE_TABLE(avx512vnni)
LLM_DECLARE_TABLE(amx)
LLM_DECLARE_TABLE(amxemulated)
LLM_DECLARE_TABLE(amxbf16)
LLM_DECLARE_TABLE(amxbf16emulated)
#elif defined(__aarch64__)
LLM_DECLARE_TABLE(neon)
LLM_DECLARE_TABLE(neondot)
LLM_DECLARE_TABLE(i8mm)
#else
LLM_DECLARE_TABLE(scalar)
#endif

#undef LLM_DECLARE_TABLE

}  // namespace llm
