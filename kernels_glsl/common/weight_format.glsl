// A weight matrix as blocks of 32 values along K: value = level * step + minimum. Rows are padded to
// whole blocks with zeros. A block is WORDS words and what scales it; a quad is its values 4q .. 4q + 3.
//
// A format is decoded in one place, quant/NAME.glsl: of a row, or with TEXELS of four rows at a time, a
// component each: AT are the parameters that say which block, THERE the arguments. Of its row in
// core/quant/formats.py are generated the words of a tile, its parts, and INTEGER_LEVELS. The format
// defines WORDS, HAS_MINIMUM unless minimums are 0, SCALES 2 where 16 values have one each; includes a
// file of quant/layout/, which says where words lie; and gives
//   decode_scales(AT, half_block, step, minimum)   half_block: 0, or of SCALES 2 which half
//   quad_of(AT, word, q)  of INTEGER_LEVELS: those of a quad as signed bytes; with ZERO_LEVEL,
//                         value = (level - ZERO_LEVEL) * step + minimum
//   level_of(words, i)    of others: the i-th value of a quad, from its QUAD_WORDS words
#include "common/words.glsl"
#ifdef TEXELS
#define WORD uvec4
#define LEVEL vec4
#define AT uint rows, uint block
#define THERE rows, block
#else
#define WORD uint
#define LEVEL float
#define AT uint block
#define THERE block
#endif
#define QUAD_WORDS (WORDS < 8 ? 1 : WORDS / 8)
#define GROUP_WORDS (WORDS < 4 ? 1 : WORDS / 4)  // that hold 8 values
layout(constant_id = 21) const uint WEIGHT_K = 0;  // columns of a weight whose first K are used; 0: K
const uint BLOCKS = (K + 31) / 32;  // of a row, as far as it is used
const uint ROW_BLOCKS = WEIGHT_K == 0 ? BLOCKS : (WEIGHT_K + 31) / 32;  // of a whole row
#include "format.glsl"              // what is generated of the row, and quant/NAME.glsl
#ifndef SCALES
#define SCALES 1
#endif

// Quads lie in order, but 4-bit levels have two quads, q and q + 4, in a word, and 2-bit levels four.
uint first_word(uint q) { return WORDS == 2 ? q / 4 : q * QUAD_WORDS % WORDS; }

// Of a quad before scaling; where the halves of a block have scales of their own, behind it.
LEVEL level_of(AT, WORD words[QUAD_WORDS], uint q, uint i) {
#ifdef INTEGER_LEVELS
  LEVEL level = byte_of(quad_of(THERE, words[0], q), i);
#if SCALES == 2
  LEVEL step, minimum;
  decode_scales(THERE, q / 4, step, minimum);
  level = level * step + minimum;
#endif
  return level;
#else
  return level_of(words, i);
#endif
}

// What belongs to levels of `level_of`.
void block_scales(AT, out LEVEL step, out LEVEL minimum) {
#if SCALES == 2
  step = LEVEL(1.0);
  minimum = LEVEL(0.0);
#else
  decode_scales(THERE, 0, step, minimum);
#endif
}
