// Defines STORE(t, item), which stores an item of row t of X in CACHE, turned where TURN says so and
// then in KEPT too, if that is defined; undefines its names: X, CACHE and KEPT are arrays of buffers,
// which functions do not take.
float VALUE(uint t, uint column) {
  float own = X[t * COLUMNS + column];
  if (TURN == 0) return own;
  uint other;
  bool second;
  vec2 turn = turn_of(t, column, other, second);
#ifdef FACTOR
  turn *= FACTOR;
#endif
  return turned_value(turn, second, own, X[t * COLUMNS + other]);
}

void STORE(uint t, uint item) {
  uint row = cache_row(places_of(t), position_of(t), CACHE_ROWS, RING_ROWS);
  if (TYPE < TYPE_I8) {
    bool whole = 2 * item + 1 < COLUMNS;  // a row of an odd number of float32 ends with half a pair
    vec2 pair = vec2(VALUE(t, 2 * item), whole ? VALUE(t, 2 * item + 1) : 0.0);
#ifdef KEPT
    if (TURN != 0) {
      KEPT[t * COLUMNS + 2 * item] = pair.x;
      KEPT[t * COLUMNS + 2 * item + 1] = pair.y;
    }
#endif
    if (TYPE == TYPE_F16) {
      CACHE[row * (COLUMNS / 2) + item] = packHalf2x16(pair);
    } else {
      CACHE[row * COLUMNS + 2 * item] = floatBitsToUint(pair.x);
      if (whole) CACHE[row * COLUMNS + 2 * item + 1] = floatBitsToUint(pair.y);
    }
    return;
  }
  bool rotated = TYPE == TYPE_I4;
  uint each = rotated ? 8 : 4;  // values of a word
  uint blocks = COLUMNS / BLOCK, to = row * (COLUMNS / each + (blocks + 1) / 2);
  vec2 scales = vec2(0.0);  // of two blocks: they share a word
  for (uint b = 2 * item; b < min(2 * item + 2, blocks); ++b) {
    uint first = t * COLUMNS + b * BLOCK;
    float largest = 0.0;
    bool finite = true;
    float x[BLOCK];
    for (uint i = 0; i < BLOCK; ++i) x[i] = X[first + i];
    for (uint apart = 1; rotated && BLOCK % (2 * apart) == 0; apart *= 2) {
      for (uint i = 0; i < BLOCK; ++i) {
        if ((i & apart) != 0) continue;
        float difference = x[i] - x[i + apart];
        x[i] += x[i + apart];
        x[i + apart] = difference;
      }
    }
    for (uint i = 0; i < BLOCK; ++i) {
      float magnitude = abs(x[i]);
      finite = finite && !isnan(magnitude) && !isinf(magnitude);
      largest = max(largest, magnitude);
    }
    float scale = block_scale(largest, rotated ? 7.5 : 127.0, finite);
    float inverse = scale > 0.0 && !isinf(scale) ? 1.0 / scale : 0.0;
    scales[b % 2] = scale;
    for (uint word = 0; word < BLOCK / each; ++word) {
      uint packed = 0;
      for (uint i = 0; i < each; ++i) {
        float value = x[each * word + i];
        packed |= rotated ? level_i4(value, inverse) << (4 * i) : level_i8(value, inverse) << (8 * i);
      }
      CACHE[to + b * (BLOCK / each) + word] = packed;
    }
  }
  CACHE[to + COLUMNS / each + item] = packHalf2x16(scales);
}
#undef STORE
#undef X
#undef CACHE
#undef TYPE
#undef COLUMNS
#undef CACHE_ROWS
#undef RING_ROWS
#undef BLOCK
#undef VALUE
#undef TURN
