// Two bfloat16 a word, the first in the low half: the upper halves of binary32.
#define WORDS 16
#include "quant/layout/values.glsl"

LEVEL level_of(WORD words[QUAD_WORDS], uint i) {
  return uintBitsToFloat(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
}
