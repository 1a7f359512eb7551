// tanh to a few units in the last place, of any magnitude; NaN stays NaN. GLSL's own may overflow, and
// 1 - 2 / (e^2x + 1) loses the digits of small results: within 0.625 a polynomial (Moshier, Cephes).
float tanh_of(float x) {
  float s = x * x;
  float p = -5.70498872745e-3 * s + 2.06390887954e-2;
  p = (p * s - 5.37397155531e-2) * s + 1.33314422036e-1;
  float small = x + x * s * (p * s - 3.33332819422e-1);
  float e = exp(-2.0 * abs(x));
  float large = (1.0 - e) / (1.0 + e);
  return abs(x) < 0.625 ? small : x < 0.0 ? -large : large;
}
