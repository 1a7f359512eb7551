#version 450
#extension GL_GOOGLE_include_directive : require
// The experts of a token with the highest scores, and what each weighs, as core/exec/reference.py defines
// it. A workgroup is a token; its lanes look at experts in turns.
#include "common/step.glsl"
#include "common/positions.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
layout(constant_id = 2) const uint EXPERTS = 1;
layout(constant_id = 3) const uint COUNT = 1;  // experts that are chosen
layout(constant_id = 4) const uint SIGMOID = 0;
layout(constant_id = 5) const uint LATE = 0;
layout(constant_id = 6) const uint NORMALIZED = 0;
layout(constant_id = 7) const float FACTOR = 1.0;
layout(constant_id = 8) const uint GROUPS = 1;
layout(constant_id = 9) const uint CHOSEN_GROUPS = 1;
layout(constant_id = 10) const uint BIASED = 0;
layout(constant_id = 11) const uint GAINED = 0;
layout(constant_id = 12) const uint SWITCHED = 0;
layout(constant_id = 13) const uint SLOT_LAYERS = 0;  // rows of switches of one sequence
layout(constant_id = 14) const uint LAYER = 0;
layout(binding = 1) readonly buffer Logits { float logits[]; };
layout(binding = 2) readonly buffer Bias { float bias[]; };
layout(binding = 3) writeonly buffer Experts { float experts[]; };
layout(binding = 4) writeonly buffer Shares { float shares[]; };
layout(binding = 5) readonly buffer Gains { float gains[]; };
layout(binding = 6) readonly buffer Switches { float switches[]; };

const float LOWEST = -3.402823466e38;
const float AFTER_ALL = -3e38;  // what an expert is worth that is chosen after all others
#define TAKEN uintBitsToFloat(0xff800000u)  // -infinity
const uint IN_GROUP = EXPERTS / GROUPS;
shared float worth[EXPERTS];
shared float group_worth[GROUPS];
shared float best_values[LANES];
shared uint best_places[LANES];
shared uint chosen[COUNT];

// The first of the highest of the lanes' own, which no lane finds again
uint take_highest() {
  uint lane = gl_LocalInvocationIndex, place = EXPERTS;
  float best = TAKEN;
  for (uint e = lane; e < EXPERTS; e += LANES) {
    if (place == EXPERTS || worth[e] > best) {
      best = worth[e];
      place = e;
    }
  }
  best_values[lane] = best;
  best_places[lane] = place;
  barrier();
  for (uint size = LANES / 2; size > 0; size /= 2) {
    if (lane < size) {
      float other = best_values[lane + size];
      bool first = other == best_values[lane] && best_places[lane + size] < best_places[lane];
      if (other > best_values[lane] || first) {
        best_values[lane] = other;
        best_places[lane] = best_places[lane + size];
      }
    }
    barrier();
  }
  place = min(best_places[0], EXPERTS - 1);
  barrier();
  if (lane == 0) worth[place] = TAKEN;
  barrier();
  return place;
}

float two_highest(uint group) {
  float first = TAKEN, second = TAKEN;
  for (uint e = group * IN_GROUP; e < (group + 1) * IN_GROUP; ++e) {
    if (worth[e] > first) {
      second = first;
      first = worth[e];
    } else if (worth[e] > second) {
      second = worth[e];
    }
  }
  return IN_GROUP > 1 ? first + second : first;
}

void leave_groups_out() {
  for (uint g = gl_LocalInvocationIndex; g < GROUPS; g += LANES) group_worth[g] = two_highest(g);
  barrier();
  for (uint g = gl_LocalInvocationIndex; g < GROUPS; g += LANES) {
    uint before = 0;  // groups that are better, or as good and earlier
    for (uint other = 0; other < GROUPS; ++other) {
      bool equal = group_worth[other] == group_worth[g] && other < g;
      if (group_worth[other] > group_worth[g] || equal) ++before;
    }
    if (before >= CHOSEN_GROUPS)
      for (uint e = g * IN_GROUP; e < (g + 1) * IN_GROUP; ++e) worth[e] = TAKEN;
  }
  barrier();
}

void main() {
  uint token = gl_WorkGroupID.x, lane = gl_LocalInvocationIndex;
  if (token >= rows_in_use()) return;
  uint row = token * EXPERTS;
  float own = LOWEST, sum = 0.0;
  for (uint e = lane; e < EXPERTS; e += LANES) own = max(own, logits[row + e]);
  float most = workgroup_max(own);
  for (uint e = lane; e < EXPERTS; e += LANES) sum += exp(logits[row + e] - most);
  float whole = workgroup_sum(sum);
  for (uint e = lane; e < EXPERTS; e += LANES) {
    float logit = logits[row + e];
    float score = SIGMOID != 0 ? 1.0 / (1.0 + exp(-logit)) : exp(logit - most) / whole;
    worth[e] = BIASED != 0 ? score + bias[e] : GROUPS > 1 ? score : logit;
  }
  barrier();
  if (GROUPS > 1) leave_groups_out();
  uint switched = SWITCHED != 0 ? (slot_of(token) * SLOT_LAYERS + LAYER) * 2 * EXPERTS : 0;
  for (uint e = lane; SWITCHED != 0 && e < EXPERTS; e += LANES) {
    float choice = switches[switched + EXPERTS + e];
    if (choice > 1.0) worth[e] = -TAKEN;
    if (choice < 1.0) worth[e] = AFTER_ALL;
  }
  barrier();
  for (uint i = 0; i < COUNT; ++i) {
    uint place = take_highest();
    if (lane == 0) chosen[i] = place;
  }
  barrier();
  if (lane != 0) return;
  float late_most = LOWEST, late_sum = 0.0, taken = 0.0;
  for (uint i = 0; i < COUNT; ++i) late_most = max(late_most, logits[row + chosen[i]]);
  for (uint i = 0; i < COUNT; ++i) late_sum += exp(logits[row + chosen[i]] - late_most);
  for (uint pass = 0; pass < 2; ++pass) {
    for (uint i = 0; i < COUNT; ++i) {
      float logit = logits[row + chosen[i]];
      float share = SIGMOID != 0 ? 1.0 / (1.0 + exp(-logit)) : exp(logit - most) / whole;
      if (LATE != 0) share = exp(logit - late_most) / late_sum;
      if (pass == 0) {
        taken += share;
        continue;
      }
      experts[token * COUNT + i] = float(chosen[i]);
      float gain = GAINED != 0 ? gains[chosen[i]] : 1.0;
      if (SWITCHED != 0) gain *= switches[switched + chosen[i]];
      shares[token * COUNT + i] = share / (NORMALIZED != 0 ? taken : 1.0) * FACTOR * gain;
    }
  }
}
