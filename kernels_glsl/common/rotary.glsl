// Rotary positions. A pair turns by position * frequency; the frequency is a fraction of a whole turn
// in 64-bit fixed point, so that the product, taken modulo one turn, is exact at any position without
// float64. core/exec/reference.py defines the op.

// Upper 32 bits of position * frequency (low, high words) modulo one turn.
uint turned(uint position, uvec2 frequency) {
  uint high, low;
  umulExtended(position, frequency.x, high, low);
  return high + position * frequency.y;
}

// (cos, sin) of turn / 2^32 turns, by Taylor series within an eighth of a turn: GLSL's own cos and
// sin are only promised to 2^-11.
vec2 cos_sin(uint turn) {
  uint quarter = (turn + 0x20000000u) >> 30;
  float a = float(int(turn - (quarter << 30))) * (6.283185307179586 / 4294967296.0);
  float s = a * a;
  float sine = a * (1.0 + s * (-1.0 / 6.0 + s * (1.0 / 120.0 + s * (-1.0 / 5040.0 + s / 362880.0))));
  float cosine = 1.0 + s * (-0.5 + s * (1.0 / 24.0 + s * (-1.0 / 720.0 + s / 40320.0)));
  vec2 at = (quarter & 1u) == 0 ? vec2(cosine, sine) : vec2(-sine, cosine);
  return (quarter & 2u) == 0 ? at : -at;
}

// What a query is multiplied by: 1 within the first TEMPERATURE_LENGTH positions, then larger.
float query_temperature(uint position) {
  uint steps = position / TEMPERATURE_LENGTH;
  return TEMPERATURE > 0.0 && steps > 0 ? 1.0 + TEMPERATURE * log(1.0 + float(steps)) : 1.0;
}
