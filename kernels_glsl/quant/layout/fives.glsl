// 32 levels of 5 bits: a group of fifth bits (bit g of byte b: value 4g + b), then nibbles. Needs
// WORDS_BEFORE, those of the part's header that come before the group.
#define PART_HEADER_WORDS (WORDS_BEFORE + 16)
#include "quant/layout/nibbles.glsl"

WORD fives_of(AT, WORD word, uint q) {
  return nibbles_of(word, q) | (part_group(THERE, WORDS_BEFORE, 0) >> q & 0x01010101u) << 4;
}
