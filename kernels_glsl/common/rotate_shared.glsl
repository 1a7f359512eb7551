// Defines ROTATE(), by which all lanes rotate the heads in SHARED, COUNT pairs of values, as
// core/quant/rows.py defines it: H x / n. Each lane has filled every LANES-th pair.
// Undefines its names: shared arrays are no arguments of functions.
void ROTATE() {
  uint lane = gl_LocalInvocationIndex;
  for (uint i = lane; i < COUNT; i += LANES) {
    vec2 x = SHARED[i];
    SHARED[i] = vec2(x.x + x.y, x.x - x.y) / float(ROTATED);
  }
  for (uint apart = 1; apart < ROTATED / 2; apart *= 2) {
    barrier();
    for (uint i = lane; i < COUNT / 2; i += LANES) {
      uint a = i / apart * 2 * apart + i % apart, b = a + apart;
      vec2 difference = SHARED[a] - SHARED[b];
      SHARED[a] += SHARED[b];
      SHARED[b] = difference;
    }
  }
  barrier();
}
#undef ROTATE
#undef SHARED
#undef COUNT
