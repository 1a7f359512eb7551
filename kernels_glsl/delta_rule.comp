#version 450
#extension GL_GOOGLE_include_directive : require
// The gated delta rule (Yang et al. 2024, https://arxiv.org/abs/2412.06464), as core/exec/reference.py has it. A
// workgroup is a head, a lane a column of its state, which is followed through all tokens, one after the other.
#include "common/step.glsl"
#include "common/positions.glsl"
#include "common/states.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint KEY_HEADS = 1;
layout(constant_id = 4) const uint KEY_DIM = 1;
layout(constant_id = 5) const uint VALUE_DIM = 1;
layout(constant_id = 6) const uint TILED = 0;
layout(binding = 1) readonly buffer Qkv { float qkv[]; };
layout(binding = 2) readonly buffer Decay { float decay[]; };
layout(binding = 3) readonly buffer Beta { float beta[]; };
layout(binding = 4) readonly buffer Rate { float rate[]; };
layout(binding = 5) readonly buffer Bias { float bias[]; };
layout(binding = 6) writeonly buffer Y { float y[]; };
layout(binding = 7) buffer State { float state[]; };

const uint KEYS = KEY_HEADS * KEY_DIM;
const uint COLUMNS = 2 * KEYS + HEADS * VALUE_DIM;
const float EPSILON = 1.0e-6;  // of lengths; the models' own
shared float query[KEY_DIM];
shared float key[KEY_DIM];

// log(1 + exp(x)), which is x where exp(x) is more than float32 holds
float softplus(float x) { return x > 20.0 ? x : log(1.0 + exp(x)); }

uint state_row(uint slot, uint head, uint i) { return ((slot * HEADS + head) * KEY_DIM + i) * VALUE_DIM; }

void main() {
  uint head = gl_WorkGroupID.y, column = gl_GlobalInvocationID.x, lane = gl_LocalInvocationIndex;
  uint key_head = TILED != 0 ? head % KEY_HEADS : head / (HEADS / KEY_HEADS);
  bool is_there = column < VALUE_DIM;  // all lanes meet at barriers
  float own[KEY_DIM];
  for (uint s = 0; s < sequences(); ++s) {
    int before = state_before(s);
    for (uint i = 0; i < KEY_DIM; ++i)
      own[i] = before < 0 || !is_there ? 0.0 : state[state_row(uint(before), head, i) + column];
    for (uint t = first_token_of(s); t < end_of(s); ++t) {
      uint row = t * COLUMNS + key_head * KEY_DIM;
      barrier();
      for (uint i = lane; i < KEY_DIM; i += LANES) {
        query[i] = qkv[row + i];
        key[i] = qkv[row + KEYS + i];
      }
      barrier();
      float queries = 0.0, keys = 0.0, read = 0.0;
      for (uint i = 0; i < KEY_DIM; ++i) {
        queries += query[i] * query[i];
        keys += key[i] * key[i];
        read += own[i] * key[i];
      }
      float by_query = inversesqrt((queries + EPSILON) * float(KEY_DIM));
      float by_key = inversesqrt(keys + EPSILON);
      float kept = exp(rate[head] * softplus(decay[t * HEADS + head] + bias[head]));
      float written = 1.0 / (1.0 + exp(-beta[t * HEADS + head]));
      float value = is_there ? qkv[t * COLUMNS + 2 * KEYS + head * VALUE_DIM + column] : 0.0;
      float change = (value - read * by_key * kept) * written * by_key, sum = 0.0;
      for (uint i = 0; i < KEY_DIM; ++i) {
        own[i] = own[i] * kept + key[i] * change;
        sum += own[i] * query[i];
      }
      if (is_there) y[(t * HEADS + head) * VALUE_DIM + column] = sum * by_query;
    }
    if (!is_there) continue;
    for (uint i = 0; i < KEY_DIM; ++i) state[state_row(state_left(s), head, i) + column] = own[i];
  }
}
