layout(binding = 1) readonly buffer Weight { vec4 weight[]; };

uint position8(uint group, uint i) { return group * 8 + i; }

void levels8(uint block, uint group, out float w[8]) {
  vec4 low = weight[block * 8 + group * 2], high = weight[block * 8 + group * 2 + 1];
  for (uint i = 0; i < 4; ++i) {
    w[i] = low[i];
    w[i + 4] = high[i];
  }
}

vec2 scale_of(uint block) { return vec2(1.0, 0.0); }
