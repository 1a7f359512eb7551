// A workgroup of 8 x 8 lanes makes a tile of TOKENS x OUTPUTS values of y[T,N] = x[T,K] . weight[N,K]^T;
// lane (n, t) those of token t + 8 * i and output n + 8 * j.
layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const uint N = 1;            // rows of this part of the weight
layout(constant_id = 4) const uint FIRST_ROW = 0;    // where the part begins in a row of y
layout(constant_id = 5) const uint Y_COLUMNS = 1;
layout(constant_id = 6) const uint TILE_T = 4;
layout(constant_id = 7) const uint TILE_N = 4;
#include "common/product.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };

const uint LANES = 64;
const uint TOKENS = 8 * TILE_T;
const uint OUTPUTS = 8 * TILE_N;
const uint SUMS = TILE_T * TILE_N;  // of a lane

uint first_token() { return gl_WorkGroupID.y * TOKENS; }

uint first_output() { return gl_WorkGroupID.x * OUTPUTS; }

uint token_row(uint t) { return min(first_token() + t, rows_in_use() - 1); }

uint weight_row(uint n) { return min(first_output() + n, N - 1); }

void write_tile(float sums[SUMS]) {
  for (uint i = 0; i < TILE_T; ++i) {
    uint token = first_token() + gl_LocalInvocationID.y + 8 * i;
    for (uint j = 0; j < TILE_N; ++j) {
      uint output_row = first_output() + gl_LocalInvocationID.x + 8 * j;
      uint at = token * Y_COLUMNS + FIRST_ROW + output_row;
      if (token < rows_in_use() && output_row < N) y[at] = added(sums[i * TILE_N + j], at);
    }
  }
}
