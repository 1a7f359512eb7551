// IEEE binary32
#define WORDS 32
#include "quant/layout/values.glsl"

LEVEL level_of(WORD words[QUAD_WORDS], uint i) { return uintBitsToFloat(words[i]); }
