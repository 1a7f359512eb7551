// Tile registers as the processor has them. In assembly: intrinsics take a register's number as
// text, which a template cannot give them. See amx/registers.h.
#pragma once

#if !defined(__AMX_INT8__)
#error "compile with -mamx-tile -mamx-int8"
#endif

namespace llm {
namespace LLM_ISA {

inline void configure_tiles(const TileConfig& config) {
  asm volatile("ldtilecfg %0" ::"m"(config));
}
inline void release_tiles() { asm volatile("tilerelease"); }

template <int kTile>
inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
template <int kTile>
inline void load_tile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
inline void store_tile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
}
template <int kC, int kA, int kB>
inline void dot_int8() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
}
#if defined(__AMX_BF16__)
template <int kC, int kA, int kB>
inline void dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
}
#endif

}  // namespace LLM_ISA
}  // namespace llm
