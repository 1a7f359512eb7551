// Two planes: blocks of WORDS words of levels, row by row, and a header of HEADER_BITS bits for each
// block: 0, 16 or 32. core/exec/vulkan/memory.py makes them.
#ifdef TEXELS
layout(binding = 1, rgba32ui) uniform readonly uimageBuffer Weight;
#if HEADER_BITS > 0
layout(binding = 2, r32ui) uniform readonly uimageBuffer Scales;
uint header_word(uint at) { return imageLoad(Scales, int(at)).x; }
#endif

uint block_of(uint rows, uint r, uint block) { return min(rows * 4 + r, N - 1) * BLOCKS + block; }

void load_part(uint rows, uint block, uint part, out uvec4 words[4]) {
  uvec4 own[4];
  [[unroll]] for (uint r = 0; r < 4; ++r)
    own[r] = imageLoad(Weight, int(block_of(rows, r, block) * (WORDS / 4) + part));
  [[unroll]] for (uint i = 0; i < 4; ++i) words[i] = uvec4(own[0][i], own[1][i], own[2][i], own[3][i]);
}
#else
#if WORDS == 8
layout(binding = 1) readonly buffer Weight { uvec2 weight[]; };
uint load_word(uint block, uint i) { return weight[block * 4 + i / 2][i % 2]; }
#else
layout(binding = 1) readonly buffer Weight { uvec4 weight[]; };
uint load_word(uint block, uint i) { return weight[block * (WORDS / 4) + i / 4][i % 4]; }
#endif
#if HEADER_BITS > 0
layout(binding = 2) readonly buffer Scales { uint scales[]; };
uint header_word(uint at) { return scales[at]; }
#endif

// those of a group of 8 values, loaded at once
void load_group(uint block, uint group, out uint words[WORDS / 4]) {
#if WORDS == 4
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

#if HEADER_BITS == 32
uint header_at(uint block) { return header_word(block); }
#elif HEADER_BITS == 16
uint header_at(uint block) { return header_word(block / 2) >> (block % 2 * 16); }
#else
uint header_at(uint block) { return 0; }
#endif

#ifdef TEXELS
uvec4 load_header(uint rows, uint block) {
  uvec4 headers;
  [[unroll]] for (uint r = 0; r < 4; ++r) headers[r] = header_at(block_of(rows, r, block));
  return headers;
}
#else
uint load_header(uint block) { return header_at(block); }
#endif
