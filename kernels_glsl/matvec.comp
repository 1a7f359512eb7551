#version 450
#extension GL_GOOGLE_include_directive : require
// The op `matmul` for few rows of x: y[T,N] = x[T,K] . weight[N,K]^T. LANE_ROWS lanes have rows of the
// weight beside each other, which in tiles lie together; the slices of as many lanes share the blocks
// along K. What a lane loads of x serves ROWS rows of the weight, and the other way round TOKENS
// rows of x.
#include "common/subgroup.glsl"
#include "common/step.glsl"
#include "common/lanes.glsl"
#include "common/reduce.glsl"
#include "common/root.glsl"
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const uint N = 1;            // rows of this part of the weight
layout(constant_id = 4) const uint FIRST_ROW = 0;    // where the part begins: in y, or of experts in their weights
layout(constant_id = 5) const uint ROWS = 4;
layout(constant_id = 6) const uint TOKENS = 1;
layout(constant_id = 7) const uint Y_COLUMNS = 1;
layout(constant_id = 8) const uint LANE_ROWS = 1;    // a power of two, as LANES
#include "common/weights.glsl"
#include "common/activations.glsl"
#include "common/product.glsl"
#include "common/dot.glsl"
#include "common/expert_weights.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };
layout(binding = 6) readonly buffer NormWeight { float norm_weight[]; };

const uint SUMS = ROWS * HALVES * TOKENS;  // by half, row and token
const uint SLICES = LANES / LANE_ROWS;

Tile tile;
uint base = 0;  // of the tile's weights in the part

uint weight_row(uint first, uint r) {
  return in_part(base + min(first + r % ROWS * LANE_ROWS, WIDTH - 1) + r / ROWS * WIDTH);
}

uint token_row(uint first, uint t) { return min(first + t, tile.end - 1); }

// over the lanes that share a row; those of a subgroup do not, but where LANE_ROWS is 1
float slices_sum(float value) {
  if (LANE_ROWS == 1) return workgroup_sum(value);
  uint lane = gl_LocalInvocationIndex;
  reduce_parts[lane] = value;
  barrier();
  for (uint size = LANES / 2; size >= LANE_ROWS; size /= 2) {
    if (lane < size) reduce_parts[lane] += reduce_parts[lane + size];
    barrier();
  }
  value = reduce_parts[lane % LANE_ROWS];
  barrier();
  return value;
}

#ifdef A8
void add_block(uint block, uint first, uint first_token, inout float sums[SUMS], inout float squares[TOKENS]) {
  int x[8 * TOKENS], zeros[TOKENS];
  vec2 scales[TOKENS];
  float x_sums[TOKENS * SCALES];
  for (uint t = 0; t < TOKENS; ++t) {
    uint token = token_row(first_token, t);
    for (uint q = 0; q < 8; ++q) x[8 * t + q] = x_quad(token, block, q);
    scales[t] = x_scale(token, block);
    zeros[t] = x_zero(token, block);
    for (uint half_block = 0; half_block < SCALES; ++half_block) {
      int total = 0;
#if SCALES == 2
      for (uint q = 0; q < SCALE_QUADS; ++q) total += dot4(x[8 * t + half_block * SCALE_QUADS + q], ONES);
#endif
      x_sums[t * SCALES + half_block] = sum_of(scales[t], zeros[t], total);
    }
  }
  for (uint r = 0; r < ROWS * HALVES; ++r) {
    uint at = weight_row(first, r) * ROW_BLOCKS + block;
    for (uint half_block = 0; half_block < SCALES; ++half_block) {
      int dots[TOKENS], total = 0;
      for (uint t = 0; t < TOKENS; ++t) dots[t] = 0;
      for (uint i = 0; i < SCALE_QUADS; ++i) {
        uint q = half_block * SCALE_QUADS + i;
        int w = int(quad(at, q));
        total += dot4(w, ONES);
        for (uint t = 0; t < TOKENS; ++t) dots[t] += dot4(w, x[8 * t + q]);
      }
      vec2 scale = quad_scale(at, half_block);
      for (uint t = 0; t < TOKENS; ++t)
        sums[r * TOKENS + t] += scale.x * scales[t].x * float(dots[t] + zeros[t] * total) +
                                scale.y * x_sums[t * SCALES + half_block];
    }
  }
}
#else
void add_block(uint block, uint first, uint first_token, inout float sums[SUMS], inout float squares[TOKENS]) {
  float levels[SUMS], x_sums[TOKENS];
  for (uint i = 0; i < SUMS; ++i) levels[i] = 0.0;
  for (uint t = 0; t < TOKENS; ++t) x_sums[t] = 0.0;
  for (uint group = 0; group < 4; ++group) {
    float x[8 * TOKENS];
    for (uint t = 0; t < TOKENS; ++t) {
      float own[8];
      activation8(token_row(first_token, t), block, group, own);
      for (uint i = 0; i < 8; ++i) {
        if (NORMED != 0) {
          squares[t] += own[i] * own[i];
          own[i] *= norm_weight[min(block * 32 + position8(group, i), K - 1)];
        }
        x[8 * t + i] = own[i];
#ifdef HAS_MINIMUM
        x_sums[t] += own[i];
#endif
      }
    }
    for (uint r = 0; r < ROWS * HALVES; ++r) {
      float w[8];
      levels8(weight_row(first, r) * ROW_BLOCKS + block, group, w);
      for (uint t = 0; t < TOKENS; ++t)
        for (uint i = 0; i < 8; ++i) levels[r * TOKENS + t] += w[i] * x[8 * t + i];
    }
  }
  for (uint r = 0; r < ROWS * HALVES; ++r) {
    vec2 scale = scale_of(weight_row(first, r) * ROW_BLOCKS + block);
    for (uint t = 0; t < TOKENS; ++t)
      sums[r * TOKENS + t] += levels[r * TOKENS + t] * scale.x + x_sums[t] * scale.y;
  }
}
#endif

void main() {
  tile = tile_of_workgroup(TOKENS);
  if (is_empty(tile)) return;
  base = tile.weights - FIRST_ROW;  // wraps where they begin before the part
  uint first_token = tile.first;
  uint lane = gl_LocalInvocationIndex;
  uint first = gl_WorkGroupID.x * ROWS * LANE_ROWS + lane % LANE_ROWS;
  float sums[SUMS], squares[TOKENS];
  for (uint i = 0; i < SUMS; ++i) sums[i] = 0.0;
  for (uint t = 0; t < TOKENS; ++t) squares[t] = 0.0;
  for (uint block = lane / LANE_ROWS; block < BLOCKS; block += SLICES)
    add_block(block, first, first_token, sums, squares);
  float roots[TOKENS];
  for (uint t = 0; t < TOKENS; ++t)
    roots[t] = NORMED != 0 ? root_of(slices_sum(squares[t]) / float(K) + EPS) : 1.0;
  for (uint i = 0; i < ROWS * TOKENS; ++i) {
    float value = slices_sum(sums[i]) / roots[i % TOKENS];
    if (HALVES == 2)
      value = gated(value, slices_sum(sums[ROWS * TOKENS + i]) / roots[i % TOKENS]);
    uint row = first + i / TOKENS * LANE_ROWS, token = first_token + i % TOKENS;
    uint at = token * Y_COLUMNS + Y_FIRST + row;
    if (lane < LANE_ROWS && row < WIDTH && token < tile.end && is_in_part(base + row))
      y[at] = added(value, at);
  }
}
