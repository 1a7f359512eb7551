// 32 levels of 4 bits in 4 words: byte i of the block holds element i low and element i + 16 high.
#define WORDS 4
#include "quant/layout/tiles.glsl"

WORD nibbles_of(WORD word, uint q) { return word >> (q & 4) & 0x0F0F0F0Fu; }
