// Tile registers in memory, a set for each thread. What a processor would answer with a fault ends
// the program: registers without a configuration, shapes that do not fit each other. See
// amx/registers.h.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace llm {
namespace LLM_ISA {

struct EmulatedTile {
  int rows = 0, row_bytes = 0;
  uint8_t bytes[kTileRegisterRows][kTileRegisterBytes] = {};
};

struct EmulatedTiles {
  bool configured = false;
  EmulatedTile tiles[8];

  static EmulatedTiles& of_thread() {
    thread_local EmulatedTiles own;
    return own;
  }
};

inline void fault_unless(bool allowed, const char* what) {
  if (allowed) return;
  std::fprintf(stderr, "emulated AMX: %s\n", what);
  std::abort();
}

inline EmulatedTile& emulated_tile(int index) {
  EmulatedTiles& own = EmulatedTiles::of_thread();
  fault_unless(own.configured && own.tiles[index].rows > 0, "a register without a configuration");
  return own.tiles[index];
}

inline void configure_tiles(const TileConfig& config) {
  EmulatedTiles& own = EmulatedTiles::of_thread();
  fault_unless(config.palette == 1 && config.start_row == 0, "LDTILECFG of another palette");
  for (int i = 0; i < 8; ++i) {
    const int rows = config.rows[i], row_bytes = config.row_bytes[i];
    fault_unless(rows <= kTileRegisterRows && row_bytes <= kTileRegisterBytes,
                 "LDTILECFG of more than a register holds");
    fault_unless((rows == 0) == (row_bytes == 0), "LDTILECFG of rows without bytes");
    own.tiles[i] = {};
    own.tiles[i].rows = rows;
    own.tiles[i].row_bytes = row_bytes;
  }
  own.configured = true;
}

inline void release_tiles() { EmulatedTiles::of_thread() = {}; }

template <int kTile>
inline void zero_tile() {
  EmulatedTile& tile = emulated_tile(kTile);
  std::memset(tile.bytes, 0, sizeof tile.bytes);
}

template <int kTile>
inline void load_tile(const void* from, int64_t stride) {
  EmulatedTile& tile = emulated_tile(kTile);
  zero_tile<kTile>();  // rows and bytes beyond the configuration
  const auto* bytes = static_cast<const uint8_t*>(from);
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(tile.bytes[r], bytes + r * stride, tile.row_bytes);
  }
}

template <int kTile>
inline void store_tile(void* to, int64_t stride) {
  const EmulatedTile& tile = emulated_tile(kTile);
  auto* bytes = static_cast<uint8_t*>(to);
  for (int r = 0; r < tile.rows; ++r) {
    std::memcpy(bytes + r * stride, tile.bytes[r], tile.row_bytes);
  }
}

inline void check_product(const EmulatedTile& c, const EmulatedTile& a, const EmulatedTile& b) {
  fault_unless(c.rows == a.rows && c.row_bytes == b.row_bytes && a.row_bytes == 4 * b.rows &&
                   c.row_bytes % 4 == 0,
               "a product of registers whose shapes do not fit");
}

inline void emulated_dot_int8(EmulatedTile& c, const EmulatedTile& a, const EmulatedTile& b) {
  check_product(c, a, b);
  for (int m = 0; m < c.rows; ++m) {
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      int32_t sum;
      std::memcpy(&sum, c.bytes[m] + 4 * n, sizeof sum);
      for (int k = 0; k < a.row_bytes; ++k) {
        const auto left = static_cast<int8_t>(a.bytes[m][k]);
        sum += left * b.bytes[k / 4][4 * n + k % 4];
      }
      std::memcpy(c.bytes[m] + 4 * n, &sum, sizeof sum);
    }
  }
}

template <int kC, int kA, int kB>
inline void dot_int8() {
  emulated_dot_int8(emulated_tile(kC), emulated_tile(kA), emulated_tile(kB));
}

// Subnormal numbers as the processor takes them, and as it leaves them: 0 of their sign.
inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// The BF16 in the lower (0) or the upper half (1) of a word
inline float bf16_of(uint32_t word, int half) {
  const uint32_t bits = half == 0 ? word << 16 : word & 0xffff0000u;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return flushed(value);
}

inline void emulated_dot_bf16(EmulatedTile& c, const EmulatedTile& a, const EmulatedTile& b) {
  check_product(c, a, b);
  constexpr int kWords = kTileRegisterBytes / 4;
  const int columns = c.row_bytes / 4;
  for (int m = 0; m < c.rows; ++m) {
    float sums[2][kWords] = {}, own[kWords];
    for (int k = 0; k < b.rows; ++k) {
      uint32_t left, right[kWords];
      std::memcpy(&left, a.bytes[m] + 4 * k, sizeof left);
      std::memcpy(right, b.bytes[k], sizeof right);
      for (int half = 0; half < 2; ++half) {
        const float x = bf16_of(left, half);
        float* to = sums[half];
        for (int n = 0; n < columns; ++n)
          to[n] = flushed(std::fma(x, bf16_of(right[n], half), to[n]));
      }
    }
    std::memcpy(own, c.bytes[m], sizeof own);
    for (int n = 0; n < columns; ++n) {
      own[n] = flushed(flushed(own[n]) + flushed(sums[0][n] + sums[1][n]));
    }
    std::memcpy(c.bytes[m], own, sizeof own);
  }
}

template <int kC, int kA, int kB>
inline void dot_bf16() {
  emulated_dot_bf16(emulated_tile(kC), emulated_tile(kA), emulated_tile(kB));
}

}  // namespace LLM_ISA
}  // namespace llm
