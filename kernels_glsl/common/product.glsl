// What a product's dispatch does beside it, where the plan's neighbouring ops allow.
layout(constant_id = 16) const uint ADDED = 0;     // y is added to the residual
layout(constant_id = 17) const uint HALVES = 1;    // 2: y = silu(upper half of the rows) * lower half
layout(constant_id = 18) const uint NORMED = 0;    // x is x / sqrt(mean(x^2) + EPS) * norm weight
layout(constant_id = 19) const float EPS = 1e-5;
layout(constant_id = 20) const uint GELU = 0;      // the gate, instead of silu
layout(binding = 5) readonly buffer Residual { float residual[]; };

float added(float value, uint at) { return ADDED != 0 ? residual[at] + value : value; }

float gated(float gate, float up) {  // as silu_mul.comp and gelu_mul.comp
  float z = GELU != 0 ? 1.5957691216 * (gate + 0.044715 * gate * gate * gate) : gate;
  return gate / (1.0 + exp(-z)) * up;
}
