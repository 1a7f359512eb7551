// A cache row is COLUMNS values, an even number; CACHE_F16 packs two float16 a word.
#ifdef CACHE_F16
#include "common/halves.glsl"
#define CACHE_WORD uint
vec2 unpack_pair(uint word) { return halves_of(word); }
#else
#define CACHE_WORD vec2
vec2 unpack_pair(vec2 word) { return word; }
#endif
