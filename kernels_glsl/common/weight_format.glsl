// A weight matrix as blocks of 32 values along K: value = level * step + minimum. Rows are padded to
// whole blocks with zeros. A block is WORDS words and a header; a quad is its values 4q .. 4q + 3.
//
// A format is decoded in one place, quant/NAME.glsl: of a row, or with TEXELS of four rows at a time, a
// component each. It defines WORDS, and HAS_MINIMUM unless minimums are 0; includes a file of
// quant/layout/ that says where words and headers lie; and gives
//   decode_header(header, step, minimum)   of a header of 16 bits the upper half is undefined
//   quad_of(word, q)      where levels are integers (INTEGER_LEVELS): those of a quad as signed bytes;
//                         with ZERO_LEVEL, value = (level - ZERO_LEVEL) * step + minimum
//   level_of(words, i)    where they are not: the i-th value of a quad, from its QUAD_WORDS words
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
#include "format.glsl"              // quant/NAME.glsl, see CMakeLists.txt

// Quads lie in order, but 4-bit levels have two quads, q and q + 4, in a word.
uint first_word(uint q) { return q * QUAD_WORDS % WORDS; }

#ifdef INTEGER_LEVELS
LEVEL level_of(WORD words[QUAD_WORDS], uint q, uint i) { return byte_of(quad_of(words[0], q), i); }
#else
LEVEL level_of(WORD words[QUAD_WORDS], uint q, uint i) { return level_of(words, i); }
#endif
