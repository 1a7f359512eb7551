// Tiles of 16 rows x 32 columns of TILE_WORDS words: a header of 16 halves, a row each, then groups
// of 16 words, a row each. Tiles lie along K first, then along N (core/quant/blocks/tiles.py).
layout(binding = 1) readonly buffer Weight { uint weight[]; };

const uint HEADER_HALF_WORDS = 8;

uint row_in_tile(uint block) { return block / BLOCKS % 16; }

uint tile_word(uint block) { return (block / BLOCKS / 16 * BLOCKS + block % BLOCKS) * TILE_WORDS; }

// the header's 16 bits of a row, and above them whatever
uint header_of(uint block) {
  uint row = row_in_tile(block);
  return weight[tile_word(block) + row / 2] >> (row % 2 * 16);
}

// the row's word of a group
uint group_word(uint block, uint group) {
  return weight[tile_word(block) + HEADER_HALF_WORDS + group * 16 + row_in_tile(block)];
}
