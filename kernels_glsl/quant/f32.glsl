layout(binding = 1) readonly buffer Weight { float weight[]; };

uint position8(uint group, uint i) { return group * 8 + i; }

void levels8(uint block, uint group, out float w[8]) {
  uint at = block * 32 + group * 8;
  for (uint i = 0; i < 8; ++i) w[i] = weight[at + i];
}

vec2 scale_of(uint block) { return vec2(1.0, 0.0); }
