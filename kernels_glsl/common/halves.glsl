// The two float16 of a word. Where a driver cannot compile both halves of unpackHalf2x16
// (`unpacks_halves` of core/gpu/info.py), the exponent's bias is moved by hand.
#ifndef HALVES_GLSL
#define HALVES_GLSL
layout(constant_id = 60) const bool UNPACKS_HALVES = true;

vec2 halves_of(uint word) {
  if (UNPACKS_HALVES) return unpackHalf2x16(word);
  uvec2 bits = uvec2(word & 0xffffu, word >> 16), magnitude = bits & 0x7fffu;
  vec2 normal = uintBitsToFloat((magnitude << 13) + (112u << 23));
  vec2 subnormal = vec2(magnitude) * 5.9604644775390625e-8;  // 2^-24
  vec2 special = uintBitsToFloat(magnitude << 13 | 0x7f800000u);  // infinity, NaN
  vec2 value = mix(normal, subnormal, lessThan(magnitude, uvec2(0x400u)));
  value = mix(value, special, greaterThanEqual(magnitude, uvec2(0x7c00u)));
  return uintBitsToFloat(floatBitsToUint(value) | (bits & 0x8000u) << 16);
}
#endif
