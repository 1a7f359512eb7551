// Blocks of four rows in their place in a tile, which has each half and each word of 16 rows
// together: as many words fill a register.
#pragma once

#include <cstdint>
#include <cstring>

#include "quant/dtype.h"

namespace llm {
namespace LLM_ISA {

constexpr int kRowsAtOnce = 4;

// A word of each row. Of 16 bytes in every build, since this is about bytes in memory.
typedef uint32_t FourWords __attribute__((vector_size(4 * kRowsAtOnce)));

// Of the same columns of as many rows
struct Blocks {
  const uint8_t* of[kRowsAtOnce];

  Blocks behind(int64_t bytes) const {
    return {{of[0] + bytes, of[1] + bytes, of[2] + bytes, of[3] + bytes}};
  }
};

template <int... kLanes, typename Vector>
inline Vector shuffle_words(Vector a, Vector b) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, kLanes...);
#else
  return __builtin_shuffle(a, b, Vector{kLanes...});
#endif
}

inline FourWords load_four_words(const uint8_t* p) {
  FourWords words;
  std::memcpy(&words, p, sizeof words);
  return words;
}
inline void store_four_words(FourWords words, uint8_t* p) { std::memcpy(p, &words, sizeof words); }

// The first words of the rows
inline FourWords first_words(const Blocks& blocks) {
  uint8_t words[sizeof(FourWords)];
  for (int r = 0; r < kRowsAtOnce; ++r) std::memcpy(words + 4 * r, blocks.of[r], 4);
  return load_four_words(words);
}

// words[i]: word i of each row
inline void turn_words(const Blocks& blocks, FourWords (&words)[4]) {
  const FourWords a = load_four_words(blocks.of[0]), b = load_four_words(blocks.of[1]),
                  c = load_four_words(blocks.of[2]), d = load_four_words(blocks.of[3]);
  const FourWords ab = shuffle_words<0, 4, 1, 5>(a, b), cd = shuffle_words<0, 4, 1, 5>(c, d);
  const FourWords ab2 = shuffle_words<2, 6, 3, 7>(a, b), cd2 = shuffle_words<2, 6, 3, 7>(c, d);
  words[0] = shuffle_words<0, 1, 4, 5>(ab, cd);
  words[1] = shuffle_words<2, 3, 6, 7>(ab, cd);
  words[2] = shuffle_words<0, 1, 4, 5>(ab2, cd2);
  words[3] = shuffle_words<2, 3, 6, 7>(ab2, cd2);
}
// The same of 32 bytes
inline void turn_words(const Blocks& blocks, FourWords (&words)[8]) {
  FourWords half[4];
  for (int h = 0; h < 2; ++h) {
    turn_words(blocks.behind(16 * h), half);
    for (int i = 0; i < 4; ++i) words[4 * h + i] = half[i];
  }
}

// Byte i of each row's word to array `arrays[i]`
inline void put_bytes(FourWords words, int row, uint8_t* const (&arrays)[4]) {
  typedef uint8_t Bytes __attribute__((vector_size(16)));
  const auto bytes = (Bytes)words;
  const auto turned =
      (FourWords)shuffle_words<0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15>(bytes, bytes);
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = turned[i];
    std::memcpy(arrays[i] + row, &word, sizeof word);
  }
}
inline void put_byte(const Blocks& blocks, int row, uint8_t* array) {
  for (int r = 0; r < kRowsAtOnce; ++r) array[row + r] = blocks.of[r][0];
}
inline void put_half(const Blocks& blocks, int row, uint8_t* array) {
  constexpr int kHalf = 2;  // bytes
  for (int r = 0; r < kRowsAtOnce; ++r) {
    std::memcpy(array + kHalf * (row + r), blocks.of[r], kHalf);
  }
}
inline void put_word(FourWords words, int row, uint8_t* group) {
  store_four_words(words, group + 4 * row);
}

// A block of float16 scales, then words, whose number is a multiple of four.
template <int kHalves, int kWords>
inline void blocks_to_tile(Blocks blocks, int row, uint8_t* tile) {
  static_assert(kWords % 4 == 0, "four words of each row are turned at a time");
  for (int i = 0; i < kHalves; ++i, blocks = blocks.behind(2), tile += 2 * kTileRows) {
    put_half(blocks, row, tile);
  }
  for (int i = 0; i < kWords; i += 4, blocks = blocks.behind(16)) {
    FourWords words[4];
    turn_words(blocks, words);
    for (const FourWords word : words) {
      put_word(word, row, tile);
      tile += 4 * kTileRows;
    }
  }
}

}  // namespace LLM_ISA
}  // namespace llm
