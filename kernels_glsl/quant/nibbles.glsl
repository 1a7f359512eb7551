// 32 levels of 4 bits in 4 words, loaded at once: byte i of the block holds element i low and element
// i + 16 high.
layout(binding = 1) readonly buffer Weight { uvec4 weight[]; };

uint position8(uint group, uint i) { return group * 4 + (i & 3) + (i >> 2) * 16; }

void nibbles8(uint block, uint group, out float w[8]) {
  uint word = weight[block][group];
  for (uint i = 0; i < 4; ++i) {
    w[i] = float(bitfieldExtract(word, int(8 * i), 4));
    w[i + 4] = float(bitfieldExtract(word, int(8 * i + 4), 4));
  }
}

uint quad(uint block, uint q) { return weight[block][q & 3] >> (q & 4) & 0x0F0F0F0Fu; }
