// IEEE binary32
#include "quant/layout/floats.glsl"

LEVEL level_of(WORD words[QUAD_WORDS], uint i) { return uintBitsToFloat(words[i]); }
