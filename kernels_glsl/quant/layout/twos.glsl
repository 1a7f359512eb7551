// 32 levels of 2 bits in 2 words: bits 2 (q % 4).. of byte b of word q / 4 are value 4q + b.
#define WORDS 2
#include "quant/layout/tiles.glsl"

WORD twos_of(WORD word, uint q) { return word >> (q % 4 * 2) & 0x03030303u; }
