// What the heads of this layer have: gains, and where SINKS says so a score that has no value. Needs
// positions.glsl.
layout(constant_id = 45) const uint SLOT_GAINS = 0;  // of all layers of one sequence
layout(binding = HEADS_BINDING) readonly buffer LayerHeads {
  uint first_gain;  // where this layer's gains begin
  float sinks[];
};

float gain_of(uint token, uint head) { return gains[slot_of(token) * SLOT_GAINS + first_gain + head]; }

// Of the sink, relative to e^top as the other weights; at most e^80, where its share is 1.
float sink_weight(uint head, float top) {
  return SINKS != 0 ? exp(min(sinks[head] - top, 80.0)) : 0.0;
}
