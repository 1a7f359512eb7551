// Rows of the caches of keys and values as texels, 8 values of a head at a time, unscaled. Rows lie
// as keys.glsl says. Needs KV_HEADS and HEAD_DIM, a multiple of 8.
#define READ_F32(NAME, SCALE_NAME, CACHE)                               \
  void NAME(uint row, uint group, uint eighth, out vec4 x[2]) {         \
    uint at = (row * KV_HEADS + group) * (HEAD_DIM / 4) + 2 * eighth;   \
    x[0] = uintBitsToFloat(imageLoad(CACHE, int(at)));                  \
    x[1] = uintBitsToFloat(imageLoad(CACHE, int(at + 1)));              \
  }                                                                     \
  float SCALE_NAME(uint row, uint group) { return 1.0; }

#define READ_F16(NAME, SCALE_NAME, CACHE)                               \
  void NAME(uint row, uint group, uint eighth, out vec4 x[2]) {         \
    uint at = (row * KV_HEADS + group) * (HEAD_DIM / 8) + eighth;       \
    uvec4 words = imageLoad(CACHE, int(at));                            \
    x[0] = vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));      \
    x[1] = vec4(unpackHalf2x16(words.z), unpackHalf2x16(words.w));      \
  }                                                                     \
  float SCALE_NAME(uint row, uint group) { return 1.0; }

#define READ_I8(NAME, SCALE_NAME, CACHE)                                \
  void NAME(uint row, uint group, uint eighth, out vec4 x[2]) {         \
    uint at = row * I8_ROW_WORDS + group * (HEAD_DIM / 4) + 2 * eighth; \
    for (uint i = 0; i < 2; ++i) {                                      \
      int word = int(imageLoad(CACHE, int(at + i)).x);                  \
      x[i] = vec4(ivec4(word) << ivec4(24, 16, 8, 0) >> 24);            \
    }                                                                   \
  }                                                                     \
  float SCALE_NAME(uint row, uint group) {                              \
    uint at = KV_HEADS * HEAD_DIM / 2 + group; /* in halves */          \
    uint word = imageLoad(CACHE, int(row * I8_ROW_WORDS + at / 2)).x;   \
    return unpackHalf2x16(word >> (at % 2 * 16)).x;                     \
  }
const uint I8_ROW_WORDS = (KV_HEADS * HEAD_DIM + 2 * KV_HEADS + 3) / 4;

#if defined(KEYS_I8)
layout(binding = 2, r32ui) uniform readonly uimageBuffer KCache;
READ_I8(key8, key_scale, KCache)
#else
layout(binding = 2, rgba32ui) uniform readonly uimageBuffer KCache;
#ifdef KEYS_F16
READ_F16(key8, key_scale, KCache)
#else
READ_F32(key8, key_scale, KCache)
#endif
#endif

#if defined(VALUES_I8)
layout(binding = 3, r32ui) uniform readonly uimageBuffer VCache;
READ_I8(value8, value_scale, VCache)
#else
layout(binding = 3, rgba32ui) uniform readonly uimageBuffer VCache;
#ifdef VALUES_F16
READ_F16(value8, value_scale, VCache)
#else
READ_F32(value8, value_scale, VCache)
#endif
#endif
