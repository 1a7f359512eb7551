// Types of cache rows, and blocks of int8 and int4 with a float16 scale (core/quant/rows.py
// defines them).
#include "common/halves.glsl"
const uint TYPE_F32 = 0, TYPE_F16 = 1, TYPE_I8 = 2, TYPE_I4 = 3;

// Lanes that a row takes.
uint items_of(uint type, uint columns, uint block) {
  return type >= TYPE_I8 ? (columns / block + 1) / 2 : (columns + 1) / 2;
}

// The scale, rounded to float16, of a block whose largest magnitude is `levels` of it.
float block_scale(float largest, float levels, bool finite) {
  float scale = halves_of(packHalf2x16(vec2(largest / levels, 0.0))).x;
  return finite ? scale : uintBitsToFloat(0x7FC00000u);
}

uint level_i8(float value, float inverse) {
  float steps = inverse > 0.0 ? roundEven(value * inverse) : 0.0;
  return uint(int(clamp(steps, -127.0, 127.0))) & 255u;
}

uint level_i4(float value, float inverse) {
  precise float steps = clamp(value * inverse, -8.0, 7.5);
  precise float level = (inverse > 0.0 ? steps : 0.0) + 8.0;
  return uint(level);
}
