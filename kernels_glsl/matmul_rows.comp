#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// y[T,N] = x[T,K] . weight[N,K]^T on a processor's vector units, where a lane is an element of a
// vector: a lane makes 4 rows of the weight by TOKENS rows of x alone, without a reduction, a
// barrier or shared memory. K is a multiple of 32. All is read as texels, which such a driver
// gathers for all lanes at once; of a storage buffer it reads lane after lane, in a loop with a
// branch for each. Of x a lane reads an eighth of a block and takes the others' from their registers:
// subgroups have 8 lanes or more, and a workgroup has 8. Loops are unrolled, of bounds that are
// constants, so that no array is indexed by a variable.
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const uint N = 1;          // rows of this part of the weight
layout(constant_id = 4) const uint FIRST_ROW = 0;  // where the part begins: in a row of y, or of experts in their weights
layout(constant_id = 5) const uint TOKENS = 1;
layout(constant_id = 6) const uint Y_COLUMNS = 1;
#define TEXELS
#include "common/weight_format.glsl"
#include "common/activations.glsl"
#include "common/product.glsl"
#include "common/root.glsl"
#include "common/expert_weights.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(binding = 6, rgba32f) uniform readonly imageBuffer NormWeight;

const uint PART_QUADS = 8 / GROUP_WORDS;  // of the block's words that are read at once

float from_lane_apart(float value, uint apart) {
  return subgroupShuffle(value, gl_SubgroupInvocationID ^ apart);
}

float sum_of_lanes(float value) {
  value += from_lane_apart(value, 1);
  value += from_lane_apart(value, 2);
  return value + from_lane_apart(value, 4);
}

vec4 own_x[TOKENS];  // a lane's eighth of a block
float x_sums[TOKENS];
vec4 sums[HALVES * TOKENS];

// Adds the products of 4 rows with a block of x to sums[first ..].
void add_block(uint rows, uint block, uint first) {
  vec4 levels[TOKENS], steps, minimums;
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) levels[t] = vec4(0.0);
  [[unroll]] for (uint part = 0; part < GROUP_WORDS; ++part) {
    uvec4 words[4];
    load_part(rows, block, part, words);
    [[unroll]] for (uint i = 0; i < PART_QUADS; ++i) {
      uint q = part * PART_QUADS + i;
      vec4 w[4];
      uvec4 own[QUAD_WORDS];
      [[unroll]] for (uint j = 0; j < QUAD_WORDS; ++j) own[j] = words[first_word(q) % 4 + j];
      [[unroll]] for (uint j = 0; j < 4; ++j) w[j] = level_of(rows, block, own, q, j);
      [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        [[unroll]] for (uint j = 0; j < 4; ++j) levels[t] += w[j] * subgroupShuffle(own_x[t][j], q);
      }
    }
  }
  block_scales(rows, block, steps, minimums);
#ifdef ZERO_LEVEL
  minimums -= ZERO_LEVEL * steps;
#endif
  [[unroll]] for (uint t = 0; t < TOKENS; ++t)
    sums[first + t] += levels[t] * steps + x_sums[t] * minimums;
}

void main() {
  Tile tile = tile_of_workgroup(TOKENS);
  if (is_empty(tile)) return;
  uint first_token = tile.first, last_token = tile.end - 1;
  uint rows = min(gl_GlobalInvocationID.x, (WIDTH - 1) / 4);  // four of them
  uint base = tile.weights - FIRST_ROW;  // wraps where they begin before the part
  uint weight_rows = in_part(base + rows * 4) / 4;
  float squares[TOKENS];
  [[unroll]] for (uint i = 0; i < HALVES * TOKENS; ++i) sums[i] = vec4(0.0);
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) squares[t] = 0.0;
  for (uint block = 0; block < BLOCKS; ++block) {
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
      own_x[t] = activation4(min(first_token + t, last_token), block, gl_SubgroupInvocationID);
      if (NORMED != 0) {
        squares[t] += dot(own_x[t], own_x[t]);
        own_x[t] *= imageLoad(NormWeight, int(block * 8 + gl_SubgroupInvocationID));
      }
      x_sums[t] = sum_of_lanes(own_x[t].x + own_x[t].y + own_x[t].z + own_x[t].w);
    }
    [[unroll]] for (uint part = 0; part < HALVES; ++part)
      add_block(weight_rows + part * (WIDTH / 4), block, part * TOKENS);
  }
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    float root = NORMED != 0 ? root_of(sum_of_lanes(squares[t]) / float(K) + EPS) : 1.0;
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      uint at = (first_token + t) * Y_COLUMNS + Y_FIRST + rows * 4 + r;
      float value = sums[t][r] / root;
      if (HALVES == 2) value = gated(value, sums[TOKENS + t][r] / root);
      bool is_there = first_token + t <= last_token && rows * 4 + r < WIDTH;
      if (is_there && is_in_part(base + rows * 4)) y[at] = added(value, at);
    }
  }
}
