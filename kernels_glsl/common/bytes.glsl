#ifndef BYTES
#define BYTES
float byte_of(uint word, int i) { return float(bitfieldExtract(int(word), 8 * i, 8)); }
#endif
