// 32 levels of 8 bits with sign, in order.
WORD quad_of(AT, WORD word, uint q) { return word; }
