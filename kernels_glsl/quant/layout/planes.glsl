// Two planes: blocks of WORDS words of levels, row by row, and headers: of HEADER_BITS 16 for each
// block, else of HEADER_WORDS words for SUPER blocks of a row together. core/exec/vulkan/memory.py makes
// them.
#ifdef TEXELS
#if WORDS == 2
layout(binding = 1, rg32ui) uniform readonly uimageBuffer Weight;
#else
layout(binding = 1, rgba32ui) uniform readonly uimageBuffer Weight;
#endif
#if HEADER_BITS > 0
layout(binding = 2, r32ui) uniform readonly uimageBuffer Scales;
uint scales_word(uint at) { return imageLoad(Scales, int(at)).x; }
#endif

uint block_of(uint rows, uint r, uint block) { return min(rows * 4 + r, N - 1) * BLOCKS + block; }

void load_part(AT, uint part, out uvec4 words[4]) {
  uvec4 own[4];
  [[unroll]] for (uint r = 0; r < 4; ++r)
    own[r] = imageLoad(Weight, int(block_of(rows, r, block) * GROUP_WORDS + part));
  [[unroll]] for (uint i = 0; i < 4; ++i) words[i] = uvec4(own[0][i], own[1][i], own[2][i], own[3][i]);
}
#else
#if WORDS == 2
layout(binding = 1) readonly buffer Weight { uvec2 weight[]; };
uint load_word(uint block, uint i) { return weight[block][i]; }
#elif WORDS == 8
layout(binding = 1) readonly buffer Weight { uvec2 weight[]; };
uint load_word(uint block, uint i) { return weight[block * 4 + i / 2][i % 2]; }
#else
layout(binding = 1) readonly buffer Weight { uvec4 weight[]; };
uint load_word(uint block, uint i) { return weight[block * (WORDS / 4) + i / 4][i % 4]; }
#endif
#if HEADER_BITS > 0
layout(binding = 2) readonly buffer Scales { uint scales[]; };
uint scales_word(uint at) { return scales[at]; }
#endif

// those of a group of 8 values, loaded at once
void load_group(uint block, uint group, out uint words[GROUP_WORDS]) {
#if WORDS == 2
  words[0] = weight[block][group / 2];
#elif WORDS == 4
  words[0] = weight[block][group];
#elif WORDS == 8
  uvec2 both = weight[block * 4 + group];
  for (uint i = 0; i < 2; ++i) words[i] = both[i];
#else
  for (uint first = 0; first < WORDS / 4; first += 4) {
    uvec4 four = weight[block * (WORDS / 4) + group * (WORDS / 16) + first / 4];
    for (uint i = 0; i < 4; ++i) words[first + i] = four[i];
  }
#endif
}
#endif

// Of one row's block, counted row by row
#if HEADER_BITS == 16
uint header_at(uint block, uint i) { return scales_word(block / 2) >> (block % 2 * 16); }
#elif HEADER_BITS > 0
uint header_at(uint block, uint i) { return scales_word(block / SUPER * (HEADER_BITS / 32) + i); }
#endif

// The i-th word of a block's header; of 16 bits, its upper half is undefined.
#if HEADER_BITS > 0
#ifdef TEXELS
uvec4 header_word(AT, uint i) {
  uvec4 headers;
  [[unroll]] for (uint r = 0; r < 4; ++r) headers[r] = header_at(block_of(rows, r, block), i);
  return headers;
}
#else
uint header_word(AT, uint i) { return header_at(block, i); }
#endif

WORD load_header(AT) { return header_word(THERE, 0); }
#endif
