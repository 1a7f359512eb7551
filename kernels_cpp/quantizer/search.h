// Search for the tiles with the least error; core/quant/search.py defines it.
#pragma once

#include "plan/op.h"

namespace llm {
namespace LLM_ISA {

extern const TileQuantizer kQuantizeInt4;
extern const TileQuantizer kQuantizeInt8;

}  // namespace LLM_ISA
}  // namespace llm
