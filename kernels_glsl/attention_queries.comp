#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// The op `attention` (attention.comp) on a processor's vector units: a lane is a query, a head of a
// token, and makes its online softmax alone over POSITIONS positions at a time. Why texels, no
// barriers and unrolled loops: matmul_rows.comp.
#include "common/step.glsl"
#include "common/positions.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint KV_HEADS = 1;
layout(constant_id = 4) const uint HEAD_DIM = 8;
layout(constant_id = 5) const float SCALE = 1.0;
layout(constant_id = 6) const uint WINDOW = 0;      // 0: all positions
layout(constant_id = 7) const uint POSITIONS = 1;   // of pages: a power of two, which none divides
layout(constant_id = 8) const uint CACHE_ROWS = 1;
layout(constant_id = 9) const float SOFTCAP = 0.0;  // 0: none
layout(constant_id = 10) const uint SINKS = 0;
layout(binding = 1, rgba32f) uniform readonly imageBuffer Q;
layout(binding = 4) readonly buffer Gains { float gains[]; };  // of all slots and layers
#define HEADS_BINDING 5
#include "common/layer_heads.glsl"
layout(binding = 6) writeonly buffer Y { vec4 y[]; };
#define TEXELS
#define KEYS_BLOCK KCache
#define KEYS_BINDING 2
#include "common/keys.glsl"
#define VALUES_BLOCK VCache
#define VALUES_BINDING 3
#include "common/values.glsl"
#include "common/softcap.glsl"
#define BIAS_BINDING 7
#include "common/bias.glsl"
#include "common/seen.glsl"

const uint QUADS = HEAD_DIM / 4;
const float NONE = -3.0e38;  // below every score, and finite: NONE - NONE is 0

#include "common/rotated.glsl"
#if defined(KEYS_I4) || defined(VALUES_I4)
// H x / n of a head (core/quant/rows.py)
void rotate(inout vec4 x[QUADS]) {
  [[unroll]] for (uint i = 0; i < QUADS; ++i) {
    vec4 one = vec4(x[i].x + x[i].y, x[i].x - x[i].y, x[i].z + x[i].w, x[i].z - x[i].w);
    x[i] = vec4(one.xy + one.zw, one.xy - one.zw) / float(ROTATED);
  }
  [[unroll]] for (uint apart = 1; apart < ROTATED / 4; apart *= 2) {
    [[unroll]] for (uint i = 0; i < QUADS; ++i) {
      if ((i & apart) != 0) continue;
      vec4 difference = x[i] - x[i + apart];
      x[i] += x[i + apart];
      x[i + apart] = difference;
    }
  }
}
#endif

float score(vec4 q[QUADS], uint row, uint group) {
  vec4 dots = vec4(0.0);
  [[unroll]] for (uint i = 0; i < QUADS; i += 2) {
    vec4 k[2];
    key_eight(row, group, i / 2, k);
    dots += q[i] * k[0] + q[i + 1] * k[1];
  }
  return (dots.x + dots.y + dots.z + dots.w) * key_scale(row, group);
}

// Where POSITIONS positions lie, from the first of them on, as far as `last`.
void rows_of(uint places, uint first, uint last, out uint rows[POSITIONS]) {
  uint page_row = PAGED ? seen_row(places, first) : 0;
  [[unroll]] for (uint s = 0; s < POSITIONS; ++s)
    rows[s] = PAGED ? page_row + min(s, last - first) : seen_row(places, min(first + s, last));
}

void main() {
  uint query = gl_GlobalInvocationID.x, token = query / HEADS, head = query % HEADS;
  if (token >= rows_in_use()) return;
  uint group = head * KV_HEADS / HEADS, own = position_of(token), places = places_of(token);
  uint last = last_seen(token);
  vec4 q[QUADS], sums[QUADS];
  [[unroll]] for (uint i = 0; i < QUADS; ++i) {
    q[i] = imageLoad(Q, int(query * QUADS + i)) * SCALE;
    sums[i] = vec4(0.0);
  }
#ifdef KEYS_I4
  rotate(q);
#endif
  float largest = NONE, total = 0.0;
  uint begin = max(FIRST, WINDOW != 0 && own + 1 > WINDOW ? own + 1 - WINDOW : 0);
  uint turns_begin = TABLE_PAGES != 0 ? begin / POSITIONS * POSITIONS : begin;
  for (uint first = turns_begin; first <= last; first += POSITIONS) {
    float weights[POSITIONS], top = largest;
    uint rows[POSITIONS];
    rows_of(places, first, last, rows);
    [[unroll]] for (uint s = 0; s < POSITIONS; ++s) {
      bool visible = first + s <= last && first + s >= begin;
      weights[s] = capped(biased(score(q, rows[s], group), head, own, first + s));
      top = max(top, visible ? weights[s] : NONE);
    }
    float shrink = exp(largest - top);
    largest = top;
    total *= shrink;
    [[unroll]] for (uint i = 0; i < QUADS; ++i) sums[i] *= shrink;
    [[unroll]] for (uint s = 0; s < POSITIONS; ++s) {
      bool visible = first + s <= last && first + s >= begin;
      float weight = visible ? exp(weights[s] - top) : 0.0;
      total += weight;
      weight *= value_scale(rows[s], group);
      [[unroll]] for (uint i = 0; i < QUADS; i += 2) {
        vec4 v[2];
        value_eight(rows[s], group, i / 2, v);
        sums[i] += weight * v[0];
        sums[i + 1] += weight * v[1];
      }
    }
  }
#ifdef VALUES_I4
  rotate(sums);
#endif
  float gain = gain_of(token, head);
  total += sink_weight(head, largest);
  [[unroll]] for (uint i = 0; i < QUADS; ++i) {
    precise vec4 mean = sums[i] / total;  // so that a gain of 1 is exact
    y[query * QUADS + i] = mean * gain;
  }
}
