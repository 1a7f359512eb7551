// Two IEEE binary16 a word, the first in the low half; 4 words are loaded at once.
layout(binding = 1) readonly buffer Weight { uvec4 weight[]; };

uint position8(uint group, uint i) { return group * 8 + i; }

void levels8(uint block, uint group, out float w[8]) {
  uvec4 words = weight[block * 4 + group];
  for (uint i = 0; i < 4; ++i) {
    vec2 pair = unpackHalf2x16(words[i]);
    w[2 * i] = pair.x;
    w[2 * i + 1] = pair.y;
  }
}

vec2 scale_of(uint block) { return vec2(1.0, 0.0); }
