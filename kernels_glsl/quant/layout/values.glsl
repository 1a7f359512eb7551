// Values by themselves, WORDS words of 32 of them, row by row.
#ifdef TEXELS
layout(binding = 1, rgba32ui) uniform readonly uimageBuffer Weight;

uint block_of(uint rows, uint r, uint block) { return min(rows * 4 + r, N - 1) * ROW_BLOCKS + block; }

void load_part(AT, uint part, out uvec4 words[4]) {
  uvec4 own[4];
  [[unroll]] for (uint r = 0; r < 4; ++r)
    own[r] = imageLoad(Weight, int(block_of(rows, r, block) * GROUP_WORDS + part));
  [[unroll]] for (uint i = 0; i < 4; ++i) words[i] = uvec4(own[0][i], own[1][i], own[2][i], own[3][i]);
}
#else
layout(binding = 1) readonly buffer Weight { uvec4 weight[]; };

uint load_word(uint block, uint i) { return weight[block * (WORDS / 4) + i / 4][i % 4]; }

// those of a group of 8 values, loaded at once
void load_group(uint block, uint group, out uint words[GROUP_WORDS]) {
  for (uint first = 0; first < GROUP_WORDS; first += 4) {
    uvec4 four = weight[block * (WORDS / 4) + group * (WORDS / 16) + first / 4];
    for (uint i = 0; i < 4; ++i) words[first + i] = four[i];
  }
}
#endif

void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  step = LEVEL(1.0);
  minimum = LEVEL(0.0);
}
