// The square root of a sum of squares that a row is divided by. NaN where it overflowed: infinity
// would divide the whole row to 0 in silence.
float root_of(float x) { return isinf(x) ? uintBitsToFloat(0x7fc00000u) : sqrt(x); }
