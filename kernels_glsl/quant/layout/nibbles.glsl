// 32 levels of 4 bits in 4 words: byte i of the block holds element i low and element i + 16 high.
WORD quad_of(AT, WORD word, uint q) { return word >> (q & 4) & 0x0F0F0F0Fu; }
