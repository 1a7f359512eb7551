// Tiles of 16 rows x 32 * PARTS columns, along K first, then along N: SUPER_WORDS words of what a whole
// tile has, then parts of 32 columns: PART_HEADER_WORDS words, then WORDS groups of levels. A group has
// a word for each row, an array of halves or bytes one of these (kernels_cpp/quant/tiles.h). TILE_WORDS
// and PARTS are generated, the others are the format's.
const uint PART_WORDS = (TILE_WORDS - SUPER_WORDS) / PARTS;

#ifdef TEXELS
layout(binding = 1, rgba32ui) uniform readonly uimageBuffer Weight;

uvec4 texel(uint at) { return imageLoad(Weight, int(at)); }

// Where a tile and a part of it begin, in texels
uint tile_at(AT) { return (rows / 4 * (ROW_BLOCKS / PARTS) + block / PARTS) * (TILE_WORDS / 4); }
uint part_at(AT) { return tile_at(THERE) + (SUPER_WORDS + block % PARTS * PART_WORDS) / 4; }

// The i-th array or group behind what lies at `first`
uvec4 halves_at(AT, uint first, uint i) {
  uvec4 found = texel(first + i * 2 + rows % 4 / 2);
  uvec2 pair = rows % 2 == 0 ? found.xy : found.zw;
  return uvec4(pair.x, pair.x >> 16, pair.y, pair.y >> 16);
}
uvec4 bytes_at(AT, uint first, uint i) {
  return uvec4(texel(first + i)[rows % 4]) >> uvec4(0, 8, 16, 24) & 255u;
}
uvec4 words_at(AT, uint first, uint i) { return texel(first + i * 4 + rows % 4); }

void load_part(AT, uint part, out uvec4 words[4]) {
  uint first = part_at(THERE) + PART_HEADER_WORDS / 4;
  [[unroll]] for (uint i = 0; i < min(4, WORDS); ++i) words[i] = words_at(THERE, first, part * 4 + i);
}
#else
layout(binding = 1) readonly buffer Weight { uint weight[]; };

uint row_in_tile(uint block) { return block / ROW_BLOCKS % 16; }

uint tile_at(AT) {
  return (block / ROW_BLOCKS / 16 * (ROW_BLOCKS / PARTS) + block % ROW_BLOCKS / PARTS) * TILE_WORDS;
}
uint part_at(AT) { return tile_at(THERE) + SUPER_WORDS + block % ROW_BLOCKS % PARTS * PART_WORDS; }

uint halves_at(AT, uint first, uint i) {
  uint row = row_in_tile(block);
  return weight[first + i * 8 + row / 2] >> (row % 2 * 16);
}
uint bytes_at(AT, uint first, uint i) {
  uint row = row_in_tile(block);
  return weight[first + i * 4 + row / 4] >> (row % 4 * 8) & 255u;
}
uint words_at(AT, uint first, uint i) { return weight[first + i * 16 + row_in_tile(block)]; }

uint load_word(uint block, uint i) { return words_at(block, part_at(block) + PART_HEADER_WORDS, i); }

void load_group(uint block, uint group, out uint words[GROUP_WORDS]) {
  for (uint i = 0; i < GROUP_WORDS; ++i) words[i] = load_word(block, group * WORDS / 4 + i);
}
#endif

// Arrays of a whole tile and of a part, a row's value in the lowest bits of a word; groups of a part
// behind so many other words.
WORD tile_half(AT, uint i) { return halves_at(THERE, tile_at(THERE), i); }
WORD part_half(AT, uint i) { return halves_at(THERE, part_at(THERE), i); }
WORD part_byte(AT, uint i) { return bytes_at(THERE, part_at(THERE), i); }

#ifdef TEXELS
WORD part_group(AT, uint words_before, uint i) {
  return words_at(THERE, part_at(THERE) + words_before / 4, i);
}
#else
WORD part_group(AT, uint words_before, uint i) {
  return words_at(THERE, part_at(THERE) + words_before, i);
}
#endif
