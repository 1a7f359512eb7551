// Weights a word at a time: position8(group, i), where in its block the i-th value of a group of 8
// lies; levels8(block, group, w), these 8 values before scaling; and scale_of(block), the block's
// (step, minimum). Blocks are counted row by row. Needs K. For integer dot products quad(block, q)
// gives a quad as signed bytes, and quad_scale(block, half_block) what belongs to these.
#include "common/weight_format.glsl"

uint quad_of_group(uint group, uint upper) { return WORDS == 4 ? group + 4 * upper : 2 * group + upper; }

uint position8(uint group, uint i) { return 4 * quad_of_group(group, i / 4) + i % 4; }

void levels8(uint block, uint group, out float w[8]) {
  uint words[GROUP_WORDS], own[QUAD_WORDS];
  load_group(block, group, words);
  for (uint i = 0; i < 8; ++i) {
    for (uint j = 0; j < QUAD_WORDS; ++j) own[j] = words[(i / 4 * QUAD_WORDS + j) % GROUP_WORDS];
    w[i] = level_of(block, own, quad_of_group(group, i / 4), i % 4);
#ifdef ZERO_LEVEL
    w[i] -= ZERO_LEVEL;
#endif
  }
}

vec2 scale_of(uint block) {
  vec2 scale;
  block_scales(block, scale.x, scale.y);
  return scale;
}

#ifdef INTEGER_LEVELS
uint quad(uint block, uint q) { return quad_of(block, load_word(block, first_word(q)), q); }

vec2 quad_scale(uint block, uint half_block) {
  vec2 scale;
  decode_scales(block, half_block, scale.x, scale.y);
#ifdef ZERO_LEVEL
  scale.y -= ZERO_LEVEL * scale.x;
#endif
  return scale;
}
#endif
