#version 450
#extension GL_GOOGLE_include_directive : require
// y = gain * softmax(q . k * scale + bias) . v over the positions that a token sees, with an online
// softmax over blocks of LANES positions (Milakov and Gimelshein 2018; Dao et al. 2022). A workgroup
// serves QUERIES = HEADS_EACH * TOKENS queries that read the same key/value head. For scores a lane is a
// position, for sums it is PAIRS_EACH pairs of the head's values. Up to SPLITS workgroups share the
// positions that a single token sees, SHARE each or more (Flash-Decoding, Dao et al. 2023): the last of
// them to arrive combines what all found.
//
// Of a shared step a token's result has the same bits whatever else is in the step: blocks begin at
// multiples of LANES, which divides a page, shares at multiples of SHARE, and shares are merged in
// their order, be it by the last workgroup or, with SPLITS = 1, by the one that makes all of them.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/positions.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint KV_HEADS = 1;
layout(constant_id = 4) const uint HEAD_DIM = 2;
layout(constant_id = 5) const float SCALE = 1.0;
layout(constant_id = 6) const uint WINDOW = 0;       // 0: all positions
layout(constant_id = 7) const uint HEADS_EACH = 1;   // divides HEADS / KV_HEADS
layout(constant_id = 8) const uint TOKENS = 1;
layout(constant_id = 9) const uint CACHE_ROWS = 1;
layout(constant_id = 10) const uint SPLITS = 1;      // above 1: workgroups have one token each
layout(constant_id = 11) const uint SHARE = 256;     // positions that are worth a workgroup; 0: no shares
layout(constant_id = 12) const float SOFTCAP = 0.0;  // 0: none
layout(constant_id = 13) const uint SINKS = 0;
layout(binding = 1) readonly buffer Q { vec2 q[]; };
layout(binding = 4) readonly buffer Gains { float gains[]; };  // of all slots and layers
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
#define BIAS_BINDING 9
#include "common/bias.glsl"
#include "common/seen.glsl"
const uint QUERIES = HEADS_EACH * TOKENS;
const uint PAIRS_EACH = (PAIRS + LANES - 1) / LANES;
const float NONE = -3.0e38;  // below every score, and finite: NONE - NONE is 0
shared vec2 queries[QUERIES * PAIRS];
shared float weights[QUERIES * LANES];  // scores, then exp(score - maximum)
shared bool is_last;
#include "common/rotated.glsl"
#ifdef KEYS_I4
#define ROTATE rotate_queries
#define SHARED queries
#define COUNT (QUERIES * PAIRS)
#include "common/rotate_shared.glsl"
#endif
#ifdef VALUES_I4
shared vec2 rotated_sums[PAIRS];
#define ROTATE rotate_sums
#define SHARED rotated_sums
#define COUNT PAIRS
#include "common/rotate_shared.glsl"
#endif

uint head_of(uint i) { return gl_WorkGroupID.x * HEADS_EACH + i % HEADS_EACH; }

uint first_token() { return SPLITS > 1 ? gl_WorkGroupID.y / SPLITS : gl_WorkGroupID.y * TOKENS; }

uint own_position(uint i) { return position_of(first_token() + i / HEADS_EACH); }

uint query_row(uint i) {  // where query i lies in q and y, in pairs
  return ((first_token() + i / HEADS_EACH) * HEADS + head_of(i)) * PAIRS;
}

uint part_row(uint i, uint split) {
  return ((first_token() * HEADS + head_of(i)) * SPLITS + split) * (PAIRS + 1);
}

// Tokens of the workgroup, from `first` to before `end`, that see positions of one sequence.
struct Run {
  uint first, end, places;
};

Run run_from(uint first, uint tokens) {
  if (!PAGED) return Run(0, tokens, places_of(first_token()));  // all are of one sequence
  uint token = first_token(), end = first + 1, places = places_of(token + first);
  while (end < tokens && places_of(token + end) == places) ++end;
  return Run(first, end, places);
}

bool is_of(Run run, uint i) {
  return !PAGED || (i / HEADS_EACH >= run.first && i / HEADS_EACH < run.end);
}

// Of the block's position s.
uint row_of(Run run, uint block, uint s) {
  return PAGED ? seen_row(run.places, block) + s : seen_row(run.places, block + s);
}

void score(Run run, uint block, uint lane, uint group) {
  float dots[QUERIES];
  for (uint i = 0; i < QUERIES; ++i) dots[i] = 0.0;
  uint row = row_of(run, block, lane), position = block + lane;
  for (uint p = 0; p < PAIRS; p += KEY_STEP) {
    vec2 pairs[KEY_STEP];
    key_pairs(row, group, p, pairs);
    for (uint s = 0; s < KEY_STEP; ++s)
      for (uint i = 0; i < QUERIES; ++i) dots[i] += dot(queries[i * PAIRS + p + s], pairs[s]);
  }
  float scale = SCALE * key_scale(row, group);
  for (uint i = 0; i < QUERIES; ++i) {
    uint own = own_position(i);
    bool visible = !CAUSAL || (position <= own && position >= FIRST && (WINDOW == 0 || position + WINDOW > own));
    float own_score = biased(dots[i] * scale, head_of(i), own, position);
    weights[i * LANES + lane] = visible && is_of(run, i) ? capped(own_score) : NONE;
  }
}

// What is known of the positions so far, and how a share of them is added: the largest score, the total
// weight and sums weighted so. Every way of adding them gives the same bits.
struct Shares {
  float largest, total, keep, add;
};

void add_share(inout Shares all, float largest, float total) {
  float top = max(all.largest, largest);
  all.keep = exp(all.largest - top);
  all.add = exp(largest - top);
  precise float sum = all.total * all.keep + total * all.add;
  all.total = sum;
  all.largest = top;
}

vec2 added_sums(Shares all, vec2 sums, vec2 share) {
  precise vec2 sum = sums * all.keep + share * all.add;
  return sum;
}

const Shares NO_SHARES = Shares(NONE, 0.0, 0.0, 0.0);

// The result of query i: weighted sums, of which a lane has every LANES-th pair, by the whole weight.
void write_means(uint i, vec2 sums[PAIRS_EACH], float whole) {
  float gain = gain_of(first_token() + i / HEADS_EACH, head_of(i));
#ifdef VALUES_I4
  for (uint j = 0; j < PAIRS_EACH; ++j) {
    uint pair = gl_LocalInvocationIndex + j * LANES;
    if (pair < PAIRS) rotated_sums[pair] = sums[j];
  }
  rotate_sums();
#endif
  for (uint j = 0; j < PAIRS_EACH; ++j) {
    uint pair = gl_LocalInvocationIndex + j * LANES;
    if (pair >= PAIRS) break;
#ifdef VALUES_I4
    sums[j] = rotated_sums[pair];
#endif
    precise vec2 mean = sums[j] / whole;  // so that a gain of 1 is exact
    y[query_row(i) + pair] = mean * gain;
  }
}

void combine_shares(uint splits) {
  for (uint i = 0; i < QUERIES; ++i) {
    vec2 own[PAIRS_EACH];
    float whole = 0.0;
    for (uint j = 0; j < PAIRS_EACH; ++j) {
      uint pair = min(gl_LocalInvocationIndex + j * LANES, PAIRS - 1);
      Shares all = NO_SHARES;
      vec2 sums = vec2(0.0);
      for (uint s = 0; s < splits; ++s) {
        vec2 found = parts[part_row(i, s) + PAIRS];
        add_share(all, found.x, found.y);
        sums = added_sums(all, sums, parts[part_row(i, s) + pair]);
      }
      whole = all.total + sink_weight(head_of(i), all.largest);
      own[j] = sums;
    }
    write_means(i, own, whole);
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
    uint counter = first_token() * (HEADS / HEADS_EACH) + gl_WorkGroupID.x;
    is_last = atomicAdd(arrived[counter], 1) == splits - 1;
    if (is_last) arrived[counter] = 0;
    memoryBarrierBuffer();
  }
  barrier();
  if (!is_last) return;
  memoryBarrierBuffer();
  if (TABLE_PAGES != 0) {
    combine_shares(splits);
    return;
  }
  for (uint i = 0; i < QUERIES; ++i) {
    float top = NONE, total = 0.0;
    for (uint s = 0; s < splits; ++s) top = max(top, parts[part_row(i, s) + PAIRS].x);
    for (uint s = 0; s < splits; ++s) {
      vec2 found = parts[part_row(i, s) + PAIRS];
      total += found.y * exp(found.x - top);
    }
    total += sink_weight(head_of(i), top);
    vec2 own[PAIRS_EACH];
    for (uint j = 0; j < PAIRS_EACH; ++j) {
      uint pair = min(lane + j * LANES, PAIRS - 1);
      vec2 sum = vec2(0.0);
      for (uint s = 0; s < splits; ++s)
        sum += parts[part_row(i, s) + pair] * exp(parts[part_row(i, s) + PAIRS].x - top);
      own[j] = sum;
    }
    write_means(i, own, total);
  }
}

// Positions that a workgroup looks at, and which of how many shares they are.
struct Range {
  uint begin, end, split, splits;
};

Range positions_of(Run run) {
  uint own_first = own_position(run.first * HEADS_EACH);
  uint begin = max(FIRST, WINDOW != 0 && own_first + 1 > WINDOW ? own_first + 1 - WINDOW : 0);
  uint end = last_seen(first_token() + run.end - 1) + 1;
  if (TABLE_PAGES != 0) begin = begin / LANES * LANES;
  if (SPLITS == 1) return Range(begin, end, 0, 1);
  uint split = gl_WorkGroupID.y % SPLITS;
  if (TABLE_PAGES != 0) {
    uint before = begin / SHARE, share = before + split;
    uint splits = (end - 1) / SHARE + 1 - before;
    return Range(max(begin, share * SHARE), min(end, (share + 1) * SHARE), split, splits);
  }
  uint each = max(SHARE, (end - begin + SPLITS - 1) / SPLITS);
  each = (each + LANES - 1) / LANES * LANES;  // whole turns of the lanes
  uint splits = max(1, (end - begin + each - 1) / each);
  begin += split * each;
  return Range(begin, min(begin + each, end), split, splits);
}

vec2 sums[QUERIES * PAIRS_EACH];
float largest[QUERIES], total[QUERIES];
const bool HOLDS = TABLE_PAGES != 0 && SPLITS == 1 && SHARE != 0;  // this workgroup merges shares itself
Shares held[QUERIES];
vec2 held_sums[QUERIES * PAIRS_EACH];

void start_share() {
  for (uint i = 0; i < QUERIES * PAIRS_EACH; ++i) sums[i] = vec2(0.0);
  for (uint i = 0; i < QUERIES; ++i) {
    largest[i] = NONE;
    total[i] = 0.0;
  }
}

void hold_nothing() {
  for (uint i = 0; i < QUERIES * PAIRS_EACH; ++i) held_sums[i] = vec2(0.0);
  for (uint i = 0; i < QUERIES; ++i) held[i] = NO_SHARES;
}

void hold_share() {
  for (uint i = 0; i < QUERIES; ++i) {
    add_share(held[i], largest[i], total[i]);
    for (uint j = i * PAIRS_EACH; j < (i + 1) * PAIRS_EACH; ++j)
      held_sums[j] = added_sums(held[i], held_sums[j], sums[j]);
  }
  start_share();
}

void attend_block(Run run, uint block, uint count, uint group) {
  uint lane = gl_LocalInvocationIndex;
  if (lane < count) score(run, block, lane, group);
  float scale = lane < count ? value_scale(row_of(run, block, lane), group) : 0.0;
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
      vec2 value = value_pair(row_of(run, block, s), group, pair);
      for (uint i = 0; i < QUERIES; ++i)
        sums[i * PAIRS_EACH + j] += weights[i * LANES + s] * value;
    }
  }
  barrier();
}

void write(Run run, Range range) {
  uint lane = gl_LocalInvocationIndex;
  for (uint i = run.first * HEADS_EACH; i < run.end * HEADS_EACH; ++i) {
    float top = HOLDS ? held[i].largest : largest[i], sum = HOLDS ? held[i].total : total[i];
    vec2 own[PAIRS_EACH];
    for (uint j = 0; j < PAIRS_EACH; ++j)
      own[j] = HOLDS ? held_sums[i * PAIRS_EACH + j] : sums[i * PAIRS_EACH + j];
    if (range.splits == 1) {
      write_means(i, own, sum + sink_weight(head_of(i), top));
      continue;
    }
    for (uint j = 0; j < PAIRS_EACH; ++j) {
      uint pair = lane + j * LANES;
      if (pair < PAIRS) parts[part_row(i, range.split) + pair] = own[j];
    }
    if (lane == 0) parts[part_row(i, range.split) + PAIRS] = vec2(top, sum);
  }
}

void attend(Run run) {
  Range range = positions_of(run);
  if (range.split >= range.splits) return;
  uint group = gl_WorkGroupID.x * HEADS_EACH * KV_HEADS / HEADS;
  start_share();
  if (HOLDS) hold_nothing();
  for (uint block = range.begin; block < range.end; block += LANES) {
    uint next = block + LANES;
    attend_block(run, block, min(LANES, range.end - block), group);
    if (HOLDS && (next % SHARE == 0 || next >= range.end)) hold_share();
  }
  write(run, range);
  if (range.splits > 1) combine(range.splits);
}

void main() {
  if (first_token() >= rows_in_use()) return;
  uint tokens = min(TOKENS, rows_in_use() - first_token());
  for (uint i = gl_LocalInvocationIndex; i < QUERIES * PAIRS; i += LANES) {
    uint query = i / PAIRS;
    queries[i] = query / HEADS_EACH < tokens ? q[query_row(query) + i % PAIRS] : vec2(0.0);
  }
#ifdef KEYS_I4
  rotate_queries();
#endif
  barrier();
  for (uint at = 0; at < tokens;) {
    Run run = run_from(at, tokens);
    attend(run);
    at = run.end;
  }
}
