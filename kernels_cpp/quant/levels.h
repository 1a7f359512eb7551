// What the levels of a format are like, as integer products take them four to a word.
#pragma once

#include "base/simd.h"

namespace llm {
namespace LLM_ISA {

enum class Levels {
  kNibbles,  // 0 to 15
  kFives,    // 0 to 31
  kSixes,    // 0 to 63
  kBytes,    // 0 to 255, or signed ones where the instruction set multiplies these
};

template <Levels kLevels>
constexpr int kMostLevel = kLevels == Levels::kNibbles ? 15
                           : kLevels == Levels::kFives ? 31
                           : kLevels == Levels::kSixes ? 63
                                                       : 255;

// The instruction set multiplies unsigned by signed bytes and accumulates in 32 bits (VNNI), so
// signed levels of 8 bits have 128 added.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kUnsignedBySigned = true;
#else
constexpr bool kUnsignedBySigned = false;
#endif

}  // namespace LLM_ISA
}  // namespace llm
