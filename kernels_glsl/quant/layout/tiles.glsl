// Tiles of 16 rows x 32 columns: a header of 16 halves, a row each, then WORDS groups of 16 words, a
// row each. Tiles lie along K first, then along N (core/quant/blocks/tiles.py).
const uint HEADER_WORDS_OF_TILE = 8;
const uint TILE_WORDS = HEADER_WORDS_OF_TILE + 16 * WORDS;

#ifdef TEXELS
layout(binding = 1, rgba32ui) uniform readonly uimageBuffer Weight;

uint tile_texel(uint rows, uint block) { return (rows / 4 * BLOCKS + block) * (TILE_WORDS / 4); }

void load_part(AT, uint part, out uvec4 words[4]) {
  uint at = tile_texel(rows, block) + HEADER_WORDS_OF_TILE / 4 + part * 16 + rows % 4;
  [[unroll]] for (uint i = 0; i < 4; ++i) words[i] = imageLoad(Weight, int(at + i * 4));
}

uvec4 load_header(AT) {
  uvec4 texel = imageLoad(Weight, int(tile_texel(rows, block) + rows % 4 / 2));
  uvec2 pair = rows % 2 == 0 ? texel.xy : texel.zw;
  return uvec4(pair.x, pair.x >> 16, pair.y, pair.y >> 16);
}
#else
layout(binding = 1) readonly buffer Weight { uint weight[]; };

uint row_in_tile(uint block) { return block / BLOCKS % 16; }

uint tile_word(uint block) { return (block / BLOCKS / 16 * BLOCKS + block % BLOCKS) * TILE_WORDS; }

uint load_word(uint block, uint i) {
  return weight[tile_word(block) + HEADER_WORDS_OF_TILE + i * 16 + row_in_tile(block)];
}

void load_group(uint block, uint group, out uint words[GROUP_WORDS]) {
  for (uint i = 0; i < WORDS / 4; ++i) words[i] = load_word(block, group * (WORDS / 4) + i);
}

uint load_header(AT) {
  uint row = row_in_tile(block);
  return weight[tile_word(block) + row / 2] >> (row % 2 * 16);
}
#endif
