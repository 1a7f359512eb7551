// Two bfloat16 a word: the upper halves of binary32.
layout(binding = 1) readonly buffer Weight { uint weight[]; };

uint position8(uint group, uint i) { return group * 8 + i; }

void levels8(uint block, uint group, out float w[8]) {
  uint at = block * 16 + group * 4;
  for (uint i = 0; i < 4; ++i) {
    uint word = weight[at + i];
    w[2 * i] = uintBitsToFloat(word << 16);
    w[2 * i + 1] = uintBitsToFloat(word & 0xFFFF0000u);
  }
}

vec2 scale_of(uint block) { return vec2(1.0, 0.0); }
