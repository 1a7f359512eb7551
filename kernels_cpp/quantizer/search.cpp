// The best tiles of int4 and int8 for given weights: core/quant/search.py defines every step.
//
// A lane is a row, and each lane adds up its errors column by column, in the order of the
// definition: the bytes are the same for any width of vector. Compiled without FMA for that reason.
#include "quantizer/search.h"

#include "quant/int4.h"
#include "quant/int8.h"

namespace llm {
namespace LLM_ISA {
namespace {

constexpr int kColumns = 32;
constexpr int kLargestStep = 0x3df;   // code of the largest finite d of int4
constexpr int kInfiniteStep = 0x3e0;  // what a block gets whose d would be larger
constexpr int kInfiniteHalf = 0x7c00;

// Candidates, as in core/quant/search.py.
constexpr int kWiden4 = 2, kNarrow4 = 30, kStride4 = 3, kShifts4 = 1, kRounds4 = 2;
constexpr int kWiden8 = 4, kNarrow8 = 28;

// 32 columns of kWidth rows with the importance of each column.
struct Block {
  F32 values[kColumns];
  float importance[kColumns];
};

inline I32 splat(int32_t x) { return I32{} + x; }
inline F32 smaller(F32 a, F32 b) { return choose(a < b, a, b); }
inline I32 smaller(I32 a, I32 b) { return ((a < b) & a) | (~(a < b) & b); }
inline I32 larger(I32 a, I32 b) { return ((a > b) & a) | (~(a > b) & b); }
inline I32 pick(I32 mask, I32 yes, I32 no) { return (mask & yes) | (~mask & no); }
inline F32 reciprocal(F32 x) { return broadcast(1.0f) / x; }

// binary32 >= 0 -> binary16 bits, to nearest, ties to even: scaled by 2^-112 the exponents agree.
inline I32 narrow_half(F32 x) {
  const F32 limit = broadcast(131008.0f);  // anything above rounds to infinity anyway
  const F32 bounded = smaller(x, limit);
  // Subnormal numbers: adding 0.5 leaves multiples of 2^-24 in the mantissa.
  const U32 small = bits_of(bounded + broadcast(0.5f)) - 0x3f000000u;
  const U32 bits = bits_of(bounded);
  const U32 normal = (bits - (112u << 23) + 0xfffu + (bits >> 13 & 1u)) >> 13;
  const I32 is_small = bounded < broadcast(0x1p-14f);
  return smaller(pick(is_small, (I32)small, (I32)normal), splat(kInfiniteHalf));
}

inline F32 half_value(I32 bits) { return widen_half((U32)bits); }

// Ten bits: binary16 without its sign and its lowest five bits.
inline I32 encode_step(F32 d) {
  const I32 bits = narrow_half(d);
  return smaller((bits + 15 + ((bits >> 5) & 1)) >> 5, splat(kInfiniteStep));
}
inline F32 decode_step(I32 code) { return half_value(code << 5); }

inline F32 level_of(F32 steps) {
  const F32 bounded = smaller(max(steps, F32{}), broadcast(15.0f));
  return to_f32(to_i32(bounded + broadcast(0.5f)));
}

struct Choice4 {
  I32 step, quarters;
  F32 error;
};

// Sum of importance * (value / d + z - level)^2, times d^2.
inline F32 error4(const Block& block, F32 d, F32 inverse, F32 z) {
  F32 sum{};
  for (int c = 0; c < kColumns; ++c) {
    const F32 steps = block.values[c] * inverse + z;
    const F32 off = steps - level_of(steps);
    sum = sum + off * off * block.importance[c];
  }
  return sum * (d * d);
}

inline void try4(const Block& block, I32 step, I32 quarters, Choice4& best) {
  step = smaller(larger(step, splat(1)), splat(kLargestStep));
  quarters = smaller(larger(quarters, splat(0)), splat(63));
  const F32 d = decode_step(step);
  const F32 error = error4(block, d, reciprocal(d), to_f32(quarters) * 0.25f);
  const I32 better = error < best.error;
  best.step = pick(better, step, best.step);
  best.quarters = pick(better, quarters, best.quarters);
  best.error = choose(better, error, best.error);
}

// Steps from the block's whole range down to about half of it; for each, zero points around the
// one that cuts both ends off alike.
inline Choice4 search4(const Block& block, F32 low, F32 high, I32 full) {
  Choice4 best{splat(1), splat(0), broadcast(__builtin_inff())};
  for (int down = kWiden4; down >= -kNarrow4; down -= kStride4) {
    const I32 step = smaller(larger(full + down, splat(1)), splat(kLargestStep));
    const F32 inverse = reciprocal(decode_step(step));
    const F32 cut = (high - low) * inverse - broadcast(15.0f);
    const F32 middle = (F32{} - low) * inverse - cut * 0.5f;
    const I32 centre = to_i32(smaller(max(middle * 4.0f, F32{}), broadcast(63.0f)));
    for (int shift = -kShifts4; shift <= kShifts4 + 1; ++shift) {
      try4(block, step, centre + shift, best);
    }
  }
  for (int round = 0; round < kRounds4; ++round) {
    const I32 step = best.step, quarters = best.quarters;
    for (int up = -1; up <= 1; ++up) {
      for (int shift = -1; shift <= 1; ++shift) {
        if (up != 0 || shift != 0) try4(block, step + up, quarters + shift, best);
      }
    }
  }
  return best;
}

inline I32 finite_rows(const Block& block) {
  I32 finite = splat(-1);
  for (int c = 0; c < kColumns; ++c) finite &= abs(block.values[c]) < broadcast(__builtin_inff());
  return finite;
}

void store_headers(I32 headers, int part, uint8_t* tile) {
  for (int i = 0; i < kWidth; ++i) {
    const auto header = static_cast<uint16_t>(headers[i]);
    std::memcpy(tile + 2 * (part * kWidth + i), &header, sizeof header);
  }
}

void store_words(I32 words, int group, int part, uint8_t* tile) {
  std::memcpy(tile + 32 + 64 * group + 4 * kWidth * part, &words, sizeof words);
}

void part4(Block& block, int part, uint8_t* tile) {
  const I32 finite = finite_rows(block);
  F32 low{}, high{};
  for (int c = 0; c < kColumns; ++c) {
    block.values[c] = choose(finite, block.values[c], F32{});
    low = smaller(low, block.values[c]);
    high = max(high, block.values[c]);
  }
  const I32 full = encode_step((high - low) / broadcast(15.0f));
  const Choice4 best = search4(block, low, high, full);
  const I32 empty = full == 0, huge = (full >= splat(kInfiniteStep)) | ~finite;
  const I32 usable = ~(empty | huge);
  const F32 inverse = reciprocal(decode_step(best.step));
  const F32 z = to_f32(best.quarters) * 0.25f;
  for (int j = 0; j < 4; ++j) {
    I32 words{};
    for (int b = 0; b < 4; ++b) {
      const I32 a = to_i32(level_of(block.values[4 * j + b] * inverse + z));
      const I32 h = to_i32(level_of(block.values[16 + 4 * j + b] * inverse + z));
      words |= (a | h << 4) << (8 * b);
    }
    store_words(words & usable, j, part, tile);
  }
  const I32 header = (best.step << 6 | best.quarters) & usable;
  store_headers(pick(huge, splat(kInfiniteStep << 6), header), part, tile);
}

inline F32 level8(F32 steps) {
  return round_nearest(smaller(max(steps, broadcast(-127.0f)), broadcast(127.0f)));
}

void part8(Block& block, int part, uint8_t* tile) {
  const I32 finite = finite_rows(block);
  F32 largest{};
  for (int c = 0; c < kColumns; ++c) {
    block.values[c] = choose(finite, block.values[c], F32{});
    largest = max(largest, abs(block.values[c]));
  }
  const I32 full = narrow_half(largest / broadcast(127.0f));
  I32 best_bits = splat(1);
  F32 least = broadcast(__builtin_inff());
  for (int shift = kWiden8; shift >= -kNarrow8; --shift) {
    const I32 bits = smaller(larger(full + shift, splat(1)), splat(kInfiniteHalf - 1));
    const F32 d = half_value(bits), inverse = reciprocal(d);
    F32 sum{};
    for (int c = 0; c < kColumns; ++c) {
      const F32 steps = block.values[c] * inverse;
      const F32 off = steps - level8(steps);
      sum = sum + off * off * block.importance[c];
    }
    const F32 error = sum * (d * d);
    const I32 better = error < least;
    best_bits = pick(better, bits, best_bits);
    least = choose(better, error, least);
  }
  const I32 empty = full == 0, huge = (full >= splat(kInfiniteHalf)) | ~finite;
  const I32 usable = ~(empty | huge);
  const F32 inverse = reciprocal(half_value(best_bits));
  for (int g = 0; g < 8; ++g) {
    I32 words{};
    for (int b = 0; b < 4; ++b) {
      words |= (to_i32(level8(block.values[4 * g + b] * inverse)) & 255) << (8 * b);
    }
    store_words(words & usable, g, part, tile);
  }
  store_headers(pick(huge, splat(kInfiniteHalf), best_bits & usable), part, tile);
}

// values [16, 32] with `stride` floats from row to row, of which `rows` are there.
void load_block(const float* values, int64_t stride, int64_t rows, int part, Block& block) {
  for (int lane = 0; lane < kWidth; ++lane) {
    const int64_t row = part * kWidth + lane;
    for (int c = 0; c < kColumns; ++c) {
      block.values[c][lane] = row < rows ? values[row * stride + c] : 0.0f;
    }
  }
}

template <void (*kPart)(Block&, int, uint8_t*)>
void quantize_tile(const float* values, int64_t stride, int64_t rows, const float* importance,
                   uint8_t* tile) {
  Block block;
  std::memcpy(block.importance, importance, sizeof block.importance);
  for (int part = 0; part < kTileRows / kWidth; ++part) {
    load_block(values, stride, rows, part, block);
    kPart(block, part, tile);
  }
}

}  // namespace

const TileQuantizer kQuantizeInt4 = {quantize_tile<part4>, Int4Tiles::kTileBytes};
const TileQuantizer kQuantizeInt8 = {quantize_tile<part8>, Int8Tiles::kTileBytes};

}  // namespace LLM_ISA
}  // namespace llm
