// Two bfloat16 a word: the upper halves of binary32; 4 words are loaded at once.
layout(binding = 1) readonly buffer Weight { uvec4 weight[]; };

uint position8(uint group, uint i) { return group * 8 + i; }

void levels8(uint block, uint group, out float w[8]) {
  uvec4 words = weight[block * 4 + group];
  for (uint i = 0; i < 4; ++i) {
    uint word = words[i];
    w[2 * i] = uintBitsToFloat(word << 16);
    w[2 * i + 1] = uintBitsToFloat(word & 0xFFFF0000u);
  }
}

vec2 scale_of(uint block) { return vec2(1.0, 0.0); }
