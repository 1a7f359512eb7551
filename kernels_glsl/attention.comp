#version 450
#extension GL_GOOGLE_include_directive : require
// y = gain * softmax(q . k * scale) . v, causal, with an online softmax over blocks of LANES positions
// (Milakov and Gimelshein 2018; Dao et al. 2022). A workgroup serves QUERIES = HEADS_EACH * TOKENS
// queries that read the same key/value head. For scores a lane is a position, for sums it is
// PAIRS_EACH pairs of the head's values. Up to SPLITS workgroups share the positions that a single
// token sees, SHARE each or more (Flash-Decoding, Dao et al. 2023): the last of them to arrive combines
// what all found.
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
layout(constant_id = 10) const uint SPLITS = 1;      // above 1: a step of one token
layout(constant_id = 11) const uint SHARE = 256;     // positions that are worth a workgroup
layout(constant_id = 12) const float SOFTCAP = 0.0;  // 0: none
layout(constant_id = 13) const uint SINKS = 0;
layout(binding = 1) readonly buffer Q { vec2 q[]; };
layout(binding = 4) readonly buffer Gains { float gains[]; };  // of all layers
#define HEADS_BINDING 5
#include "common/layer_heads.glsl"
layout(binding = 6) writeonly buffer Y { vec2 y[]; };
layout(binding = 7) coherent buffer Parts { vec2 parts[]; };      // of each head and split
layout(binding = 8) coherent buffer Arrived { uint arrived[]; };  // workgroups of a head; 0 before

const uint PAIRS = HEAD_DIM / 2;
#define KEYS_BINDING 2
#define KEYS_BLOCK KCache
#include "common/keys.glsl"
#define VALUES_BINDING 3
#define VALUES_BLOCK VCache
#include "common/values.glsl"
#include "common/softcap.glsl"
const uint QUERIES = HEADS_EACH * TOKENS;
const uint PAIRS_EACH = (PAIRS + LANES - 1) / LANES;
const float NONE = -3.0e38;  // below every score, and finite: NONE - NONE is 0
shared vec2 queries[QUERIES * PAIRS];
shared float weights[QUERIES * LANES];  // scores, then exp(score - maximum)
shared bool is_last;

uint head_of(uint i) { return gl_WorkGroupID.x * HEADS_EACH + i % HEADS_EACH; }

uint first_token() { return SPLITS > 1 ? 0 : gl_WorkGroupID.y * TOKENS; }

uint query_row(uint i) {  // where query i lies in q and y, in pairs
  return ((first_token() + i / HEADS_EACH) * HEADS + head_of(i)) * PAIRS;
}

uint part_row(uint i, uint split) { return (head_of(i) * SPLITS + split) * (PAIRS + 1); }

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
    uint own = start_position() + first_token() + i / HEADS_EACH;
    bool visible = position <= own && (WINDOW == 0 || position + WINDOW > own);
    weights[i * LANES + lane] = visible ? capped(dots[i] * scale) : NONE;
  }
}

// The means of `splits` workgroups' positions, by the one that arrives last. What a workgroup wrote is
// there for the others before it is counted: barrier() orders its lanes, the fences the device.
void combine(uint splits) {
  uint lane = gl_LocalInvocationIndex;
  memoryBarrierBuffer();
  barrier();
  if (lane == 0) {
    memoryBarrierBuffer();
    is_last = atomicAdd(arrived[gl_WorkGroupID.x], 1) == splits - 1;
    if (is_last) arrived[gl_WorkGroupID.x] = 0;
    memoryBarrierBuffer();
  }
  barrier();
  if (!is_last) return;
  memoryBarrierBuffer();
  for (uint i = 0; i < QUERIES; ++i) {
    float top = NONE, total = 0.0;
    for (uint s = 0; s < splits; ++s) top = max(top, parts[part_row(i, s) + PAIRS].x);
    for (uint s = 0; s < splits; ++s) {
      vec2 found = parts[part_row(i, s) + PAIRS];
      total += found.y * exp(found.x - top);
    }
    total += sink_weight(head_of(i), top);
    for (uint pair = lane; pair < PAIRS; pair += LANES) {
      vec2 sum = vec2(0.0);
      for (uint s = 0; s < splits; ++s)
        sum += parts[part_row(i, s) + pair] * exp(parts[part_row(i, s) + PAIRS].x - top);
      precise vec2 mean = sum / total;
      y[query_row(i) + pair] = mean * gain_of(head_of(i));
    }
  }
}

void main() {
  uint lane = gl_LocalInvocationIndex;
  if (first_token() >= rows_in_use()) return;
  uint tokens = min(TOKENS, rows_in_use() - first_token());
  uint own_first = start_position() + first_token();
  uint begin = WINDOW != 0 && own_first + 1 > WINDOW ? own_first + 1 - WINDOW : 0;
  uint end = own_first + tokens;
  uint splits = 1, split = 0;
  if (SPLITS > 1) {
    uint each = max(SHARE, (end - begin + SPLITS - 1) / SPLITS);
    each = (each + LANES - 1) / LANES * LANES;  // whole turns of the lanes
    splits = max(1, (end - begin + each - 1) / each);
    split = gl_WorkGroupID.y;
    if (split >= splits) return;
    begin += split * each;
    end = min(begin + each, end);
  }
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
    float whole = total[i] + sink_weight(head_of(i), largest[i]);
    for (uint j = 0; j < PAIRS_EACH; ++j) {
      uint pair = lane + j * LANES;
      precise vec2 mean = sums[i * PAIRS_EACH + j] / whole;  // so that a gain of 1 is exact
      if (pair >= PAIRS) break;
      if (splits > 1) parts[part_row(i, split) + pair] = sums[i * PAIRS_EACH + j];
      else y[query_row(i) + pair] = mean * gain_of(head_of(i));
    }
    if (splits > 1 && lane == 0) parts[part_row(i, split) + PAIRS] = vec2(largest[i], total[i]);
  }
  if (splits > 1) combine(splits);
}
