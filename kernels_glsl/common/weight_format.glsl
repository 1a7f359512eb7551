// A weight matrix as blocks of 32 values along K: value = level * step + minimum. Rows are padded to
// whole blocks with zeros. A block is WORDS words and a header; a quad is its values 4q .. 4q + 3.
//
// A format is decoded in one place, quant/NAME.glsl: of a row, or with TEXELS of four rows at a time, a
// component each. Its row in core/quant/formats.py says WORDS, the HEADER_BITS of planes, whether levels
// are integers (INTEGER_LEVELS) and the file of quant/layout/ in which words and headers lie; the format
// defines HAS_MINIMUM unless minimums are 0, and gives
//   decode_header(header, step, minimum)   of a header of 16 bits the upper half is undefined
//   quad_of(word, q)      of INTEGER_LEVELS: those of a quad as signed bytes;
//                         with ZERO_LEVEL, value = (level - ZERO_LEVEL) * step + minimum
//   level_of(words, i)    of others: the i-th value of a quad, from its QUAD_WORDS words
#include "common/words.glsl"
#ifdef TEXELS
#define WORD uvec4
#define LEVEL vec4
#else
#define WORD uint
#define LEVEL float
#endif
#define QUAD_WORDS (WORDS < 8 ? 1 : WORDS / 8)
const uint BLOCKS = (K + 31) / 32;  // of a row
#include "format.glsl"              // what is generated of the row, and quant/NAME.glsl

// Quads lie in order, but 4-bit levels have two quads, q and q + 4, in a word.
uint first_word(uint q) { return q * QUAD_WORDS % WORDS; }

#ifdef INTEGER_LEVELS
LEVEL level_of(WORD words[QUAD_WORDS], uint q, uint i) { return byte_of(quad_of(words[0], q), i); }
#else
LEVEL level_of(WORD words[QUAD_WORDS], uint q, uint i) { return level_of(words, i); }
#endif
