// 4-bit codes: each names one of 16 signed bytes, which lie four to a word in TABLE.
uint code_of(uint code) { return TABLE[code / 4] >> (code % 4 * 8) & 255u; }

uint codes_of(uint word) {
  uint found = 0;
  for (uint i = 0; i < 32; i += 8) found |= code_of(word >> i & 15u) << i;
  return found;
}
uvec4 codes_of(uvec4 words) {
  return uvec4(codes_of(words.x), codes_of(words.y), codes_of(words.z), codes_of(words.w));
}
