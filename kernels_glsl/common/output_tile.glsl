// A workgroup of 8 x 8 lanes makes a tile of TOKENS x OUTPUTS values of y[T,N] = x[T,K] . weight[N,K]^T;
// lane (n, t) those of token t + 8 * i and output n + 8 * j.
layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const uint N = 1;            // rows of this part of the weight
layout(constant_id = 4) const uint FIRST_ROW = 0;    // where the part begins: in y, or of experts in their weights
layout(constant_id = 5) const uint Y_COLUMNS = 1;
layout(constant_id = 6) const uint TILE_T = 4;
layout(constant_id = 7) const uint TILE_N = 4;
#include "common/product.glsl"
#include "common/expert_weights.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };

const uint LANES = 64;
const uint TOKENS = 8 * TILE_T;
const uint OUTPUTS = 8 * TILE_N;
const uint SUMS = TILE_T * TILE_N;  // of a lane

Tile tile;      // of the workgroup's rows of x
uint base = 0;  // of its weights in the part

// False where the workgroup has nothing to do.
bool find_tile() {
  tile = tile_of_workgroup(TOKENS);
  base = tile.weights - FIRST_ROW;  // wraps where they begin before the part
  return !is_empty(tile);
}

uint first_output() { return gl_WorkGroupID.x * OUTPUTS; }

uint token_row(uint t) { return min(tile.first + t, tile.end - 1); }

uint weight_row(uint n) { return in_part(base + min(first_output() + n, WIDTH - 1)); }

void write_tile(float sums[SUMS]) {
  for (uint i = 0; i < TILE_T; ++i) {
    uint token = tile.first + gl_LocalInvocationID.y + 8 * i;
    for (uint j = 0; j < TILE_N; ++j) {
      uint output_row = first_output() + gl_LocalInvocationID.x + 8 * j;
      uint at = token * Y_COLUMNS + Y_FIRST + output_row;
      bool is_there = token < tile.end && output_row < WIDTH && is_in_part(base + output_row);
      if (is_there) y[at] = added(sums[i * TILE_N + j], at);
    }
  }
}
