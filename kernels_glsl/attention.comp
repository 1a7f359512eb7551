#version 450
#extension GL_GOOGLE_include_directive : require
// y = gain * softmax(q . k * scale) . v, causal, with an online softmax over blocks of LANES positions
// (Milakov and Gimelshein 2018; Dao et al. 2022). A workgroup serves QUERIES = HEADS_EACH * TOKENS
// queries that read the same key/value head. For scores a lane is a position, for sums it is
// PAIRS_EACH pairs of the head's values.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint KV_HEADS = 1;
layout(constant_id = 4) const uint HEAD_DIM = 2;
layout(constant_id = 5) const float SCALE = 1.0;
layout(constant_id = 6) const uint WINDOW = 0;       // 0: all positions
layout(constant_id = 7) const uint HEADS_EACH = 1;   // divides HEADS / KV_HEADS
layout(constant_id = 8) const uint TOKENS = 1;
layout(constant_id = 9) const uint CACHE_ROWS = 1;   // position p lies in row p mod CACHE_ROWS
layout(binding = 1) readonly buffer Q { vec2 q[]; };
layout(binding = 4) readonly buffer Gains { float gains[]; };        // of all layers
layout(binding = 5) readonly buffer FirstGain { uint first_gain; };  // where this layer's begin
layout(binding = 6) writeonly buffer Y { vec2 y[]; };

const uint PAIRS = HEAD_DIM / 2;
#define KEYS_BINDING 2
#define KEYS_BLOCK KCache
#include "common/keys.glsl"
#define VALUES_BINDING 3
#define VALUES_BLOCK VCache
#include "common/values.glsl"
const uint QUERIES = HEADS_EACH * TOKENS;
const uint PAIRS_EACH = (PAIRS + LANES - 1) / LANES;
const float NONE = -3.0e38;  // below every score, and finite: NONE - NONE is 0
shared vec2 queries[QUERIES * PAIRS];
shared float weights[QUERIES * LANES];  // scores, then exp(score - maximum)

uint query_row(uint i) {  // where query i lies in q and y, in pairs
  uint head = gl_WorkGroupID.x * HEADS_EACH + i % HEADS_EACH;
  uint token = gl_WorkGroupID.y * TOKENS + i / HEADS_EACH;
  return (token * HEADS + head) * PAIRS;
}

void score(uint position, uint lane, uint group) {
  float dots[QUERIES];
  for (uint i = 0; i < QUERIES; ++i) dots[i] = 0.0;
  uint row = position % CACHE_ROWS;
  for (uint p = 0; p < PAIRS; p += KEY_STEP) {
    vec2 pairs[KEY_STEP];
    key_pairs(row, group, p, pairs);
    for (uint s = 0; s < KEY_STEP; ++s)
      for (uint i = 0; i < QUERIES; ++i) dots[i] += dot(queries[i * PAIRS + p + s], pairs[s]);
  }
  float scale = SCALE * key_scale(row, group);
  for (uint i = 0; i < QUERIES; ++i) {
    uint own = start_position() + gl_WorkGroupID.y * TOKENS + i / HEADS_EACH;
    bool visible = position <= own && (WINDOW == 0 || position + WINDOW > own);
    weights[i * LANES + lane] = visible ? dots[i] * scale : NONE;
  }
}

void main() {
  uint first_token = gl_WorkGroupID.y * TOKENS, lane = gl_LocalInvocationIndex;
  if (first_token >= rows_in_use()) return;
  uint tokens = min(TOKENS, rows_in_use() - first_token);
  uint group = gl_WorkGroupID.x * HEADS_EACH * KV_HEADS / HEADS;
  for (uint i = lane; i < QUERIES * PAIRS; i += LANES) {
    uint query = i / PAIRS;
    queries[i] = query / HEADS_EACH < tokens ? q[query_row(query) + i % PAIRS] : vec2(0.0);
  }
  vec2 sums[QUERIES * PAIRS_EACH];
  float largest[QUERIES], total[QUERIES];
  for (uint i = 0; i < QUERIES * PAIRS_EACH; ++i) sums[i] = vec2(0.0);
  for (uint i = 0; i < QUERIES; ++i) {
    largest[i] = NONE;
    total[i] = 0.0;
  }
  uint own_first = start_position() + first_token;
  uint begin = WINDOW != 0 && own_first + 1 > WINDOW ? own_first + 1 - WINDOW : 0;
  uint end = own_first + tokens;
  barrier();
  for (uint block = begin; block < end; block += LANES) {
    uint count = min(LANES, end - block);
    if (lane < count) score(block + lane, lane, group);
    float scale = lane < count ? value_scale((block + lane) % CACHE_ROWS, group) : 0.0;
    for (uint i = 0; i < QUERIES; ++i) {
      float own_score = lane < count ? weights[i * LANES + lane] : NONE;
      float top = max(largest[i], workgroup_max(own_score));
      float weight = own_score > NONE ? exp(own_score - top) : 0.0;
      float shrink = exp(largest[i] - top);
      weights[i * LANES + lane] = weight * scale;
      total[i] = total[i] * shrink + workgroup_sum(weight);
      for (uint j = 0; j < PAIRS_EACH; ++j) sums[i * PAIRS_EACH + j] *= shrink;
      largest[i] = top;
    }
    barrier();
    for (uint j = 0; j < PAIRS_EACH; ++j) {
      uint pair = lane + j * LANES;
      if (pair >= PAIRS) break;
      for (uint s = 0; s < count; ++s) {
        vec2 value = value_pair((block + s) % CACHE_ROWS, group, pair);
        for (uint i = 0; i < QUERIES; ++i)
          sums[i * PAIRS_EACH + j] += weights[i * LANES + s] * value;
      }
    }
    barrier();
  }
  for (uint i = 0; i < QUERIES; ++i) {
    if (i / HEADS_EACH >= tokens) break;
    float gain = gains[first_gain + gl_WorkGroupID.x * HEADS_EACH + i % HEADS_EACH];
    for (uint j = 0; j < PAIRS_EACH; ++j) {
      uint pair = lane + j * LANES;
      precise vec2 mean = sums[i * PAIRS_EACH + j] / total[i];  // so that a gain of 1 is exact
      if (pair < PAIRS) y[query_row(i) + pair] = mean * gain;
    }
  }
}
