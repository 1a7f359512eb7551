// Two IEEE binary16 a word, the first in the low half.
#define WORDS 16
#include "quant/layout/values.glsl"

LEVEL level_of(WORD words[QUAD_WORDS], uint i) { return half_of(words[i / 2], i % 2); }
