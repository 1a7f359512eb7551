// 32 levels of 8 bits with sign, in order.
#define INTEGER_LEVELS
WORD quad_of(WORD word, uint q) { return word; }
