// One binary16 scale a block, two a word.
layout(binding = 2) readonly buffer Scales { uint scales[]; };

vec2 scale_of(uint block) {
  vec2 pair = unpackHalf2x16(scales[block >> 1]);
  return vec2((block & 1) == 0 ? pair.x : pair.y, 0.0);
}
