// The eight tile registers of Intel's Advanced Matrix Extensions (AMX), as products of bytes and of
// BF16 use them: each has up to 16 rows of up to 64 bytes. Intel 64 and IA-32 Architectures
// Software Developer's Manual, volume 1, chapter 18, and LDTILECFG, TILELOADD, TDPBSUD, TDPBF16PS
// in volume 2.
//
//   TileConfig                   rows and bytes a row of each register
//   configure_tiles(config)      per thread; sets all registers to 0
//   release_tiles()
//   zero_tile<t>()
//   load_tile<t>(from, stride)   rows of memory, `stride` bytes apart
//   store_tile<t>(to, stride)
//   dot_int8<c, a, b>()          int32 c[m][n] += a[m][4k + i] * b[k][4n + i], summed over all k
//                                and i = 0..3; bytes of a are signed, of b unsigned
//   dot_bf16<c, a, b>()          float32 c[m][n] += a[m][2k + i] * b[k][2n + i], BF16, summed over
//                                all k for each i by itself, then over i = 0, 1; each sum is
//                                rounded to nearest even, subnormal numbers count as 0 and become 0
//
// LLM_AMX_EMULATED: what these instructions are documented to do, in plain C++, so that kernels can
// be tested on processors without them.
#pragma once

#include <cstdint>

namespace llm {
namespace LLM_ISA {

constexpr int kTileRegisterRows = 16;
constexpr int kTileRegisterBytes = 64;  // of a row, at most

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int n_rows, int bytes) {
    rows[tile] = static_cast<uint8_t>(n_rows);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

}  // namespace LLM_ISA
}  // namespace llm

#if defined(LLM_AMX_EMULATED)
#include "amx/registers_emulated.h"
#else
#include "amx/registers_native.h"
#endif
