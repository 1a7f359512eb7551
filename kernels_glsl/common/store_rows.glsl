// Defines STORE(t, item), which stores an item of row t of X in CACHE, and undefines its names:
// X and CACHE are arrays of buffers, which functions do not take.
void STORE(uint t, uint item) {
  uint row = (start_position() + t) % CACHE_ROWS, from = t * COLUMNS + 2 * item;
  if (TYPE == TYPE_F16) {
    CACHE[row * (COLUMNS / 2) + item] = packHalf2x16(vec2(X[from], X[from + 1]));
    return;
  }
  if (TYPE == TYPE_F32) {
    CACHE[row * COLUMNS + 2 * item] = floatBitsToUint(X[from]);
    CACHE[row * COLUMNS + 2 * item + 1] = floatBitsToUint(X[from + 1]);
    return;
  }
  uint blocks = COLUMNS / BLOCK, to = row * ((COLUMNS + 2 * blocks + 3) / 4);
  vec2 scales = vec2(0.0);  // of two blocks: they share a word
  for (uint b = 2 * item; b < min(2 * item + 2, blocks); ++b) {
    uint first = t * COLUMNS + b * BLOCK;
    float largest = 0.0;
    bool finite = true;
    for (uint i = 0; i < BLOCK; ++i) {
      float magnitude = abs(X[first + i]);
      finite = finite && !isnan(magnitude) && !isinf(magnitude);
      largest = max(largest, magnitude);
    }
    float scale = block_scale(largest, finite);
    float inverse = scale > 0.0 && !isinf(scale) ? 1.0 / scale : 0.0;
    scales[b % 2] = scale;
    for (uint word = 0; word < BLOCK / 4; ++word) {
      uint packed = 0;
      for (uint i = 0; i < 4; ++i)
        packed |= level_i8(X[first + 4 * word + i], inverse) << (8 * i);
      CACHE[to + b * (BLOCK / 4) + word] = packed;
    }
  }
  CACHE[to + COLUMNS / 4 + item] = packHalf2x16(scales);
}
#undef STORE
#undef X
#undef CACHE
#undef TYPE
#undef COLUMNS
#undef CACHE_ROWS
#undef BLOCK
