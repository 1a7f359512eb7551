// What a product's dispatch does beside it, where the plan's neighbouring ops allow.
layout(constant_id = 16) const uint ADDED = 0;     // y is added to the residual
layout(constant_id = 17) const uint HALVES = 1;    // 2: y = silu(upper half of the rows) * lower half
layout(constant_id = 18) const uint NORMED = 0;    // x is x / sqrt(mean(x^2) + EPS) * norm weight
layout(constant_id = 19) const float EPS = 1e-5;
layout(binding = 5) readonly buffer Residual { float residual[]; };

float added(float value, uint at) { return ADDED != 0 ? residual[at] + value : value; }

float silu_mul(float gate, float up) { return gate / (1.0 + exp(-gate)) * up; }
