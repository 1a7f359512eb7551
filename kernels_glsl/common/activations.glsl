// The left operand of a product: rows of K values, float32 or int8 blocks (A8).
// Needs K and BLOCKS; activation8 gives the values at positions position8(group, 0..7) of a block.

#ifdef A8
// A row: K int8, then K/32 pairs of a float scale and a block sum, and K/32 pairs of int16, of which
// the first is the zero point (core/quant/a8.py).
layout(binding = 3) readonly buffer X { uint x_words[]; };
const uint ROW_WORDS = K / 4 + 3 * BLOCKS;

void activation8(uint row, uint block, uint group, out float x[8]) {
  uint base = row * ROW_WORDS;
  float scale = uintBitsToFloat(x_words[base + K / 4 + 2 * block]);
  int zero = bitfieldExtract(int(x_words[base + K / 4 + 2 * BLOCKS + block]), 0, 16);
  for (uint j = 0; j < 2; ++j) {
    int word = int(x_words[base + block * 8 + position8(group, 4 * j) / 4]);
    for (uint i = 0; i < 4; ++i)
      x[4 * j + i] = float(bitfieldExtract(word, int(8 * i), 8) + zero) * scale;
  }
}
#else
layout(binding = 3) readonly buffer X { float x_values[]; };

void activation8(uint row, uint block, uint group, out float x[8]) {
  for (uint i = 0; i < 8; ++i) {
    uint k = block * 32 + position8(group, i);
    x[i] = K % 32 == 0 || k < K ? x_values[row * K + k] : 0.0;
  }
}
#endif
