// Values in words of 32 bits: of one word, or of four words, of which a component each.
#ifndef WORDS_GLSL
#define WORDS_GLSL
#include "common/halves.glsl"
float byte_of(uint word, uint i) { return float(bitfieldExtract(int(word), int(8 * i), 8)); }
vec4 byte_of(uvec4 words, uint i) { return vec4(ivec4(words << (24 - 8 * i)) >> 24); }
ivec4 bytes_of(uint word) { return ivec4(word) << ivec4(24, 16, 8, 0) >> 24; }

// Four bytes of 0 to 127, each less the byte of `less`, as signed ones: with the highest bit set none
// borrows from the next.
uint less_each(uint word, uint less) { return (word | 0x80808080u) - less ^ 0x80808080u; }
uvec4 less_each(uvec4 words, uint less) { return (words | 0x80808080u) - less ^ 0x80808080u; }

// The four levels of int4 in the low half of a word, the first in the low bits, without their scale
// (core/quant/rows.py).
vec4 levels_i4(uint word) { return vec4(uvec4(word) >> uvec4(0, 4, 8, 12) & 15u) - 7.5; }

float half_of(uint word, uint i) { return halves_of(word)[i]; }
vec4 half_of(uvec4 words, uint i) {
  return vec4(half_of(words.x, i), half_of(words.y, i), half_of(words.z, i), half_of(words.w, i));
}
#endif
