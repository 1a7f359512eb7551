// Rows of the weights of experts, which lie one behind the other, EXPERT_ROWS each; a part has N of them,
// from FIRST_ROW on. Without experts a part has rows of one matrix. Needs both, and HALVES.
#include "common/experts.glsl"
layout(constant_id = 25) const uint EXPERT_ROWS = 1;
const uint WIDTH = EXPERTS == 0 ? N / HALVES : EXPERT_ROWS;  // outputs of a row of x
const uint Y_FIRST = EXPERTS == 0 ? FIRST_ROW : 0;           // where they begin in a row of y

// Rows of x that are multiplied together: those of one expert, whose weights begin at `weights` among all.
struct Tile { uint first, end, weights; };

// Experts begin with a tile each, so that tile `index` of `size` rows may be of none. Of all tiles before
// an expert's first one those of each expert before it are one more than whole ones at most, so
// that they are counted by where it begins.
Tile tile_of(uint index, uint size) {
  uint low = 0, high = EXPERTS;
  while (high - low > 1) {
    uint middle = (low + high) / 2;
    if (uint(starts[middle]) / size + middle <= index) low = middle;
    else high = middle;
  }
  uint begin = uint(starts[low]), skipped = index - begin / size - low;
  return Tile(begin + skipped * size, uint(starts[low + 1]), low * EXPERT_ROWS);
}

// The `size` rows of a workgroup, none where they would begin behind the end.
Tile tile_of_workgroup(uint size) {
  uint index = gl_WorkGroupID.y;
  if (EXPERTS == 0) return Tile(index * size, rows_in_use(), FIRST_ROW);
  if (size > 1) return tile_of(index, size);
  return Tile(index, rows_in_use(), index < rows_in_use() ? expert_of(index) * EXPERT_ROWS : 0);
}

// Whether there is nothing to multiply: no rows of x, or the weights are all in other parts.
bool is_empty(Tile tile) {
  if (tile.first >= tile.end) return true;
  return EXPERTS != 0 && (tile.weights >= FIRST_ROW + N || tile.weights + EXPERT_ROWS <= FIRST_ROW);
}

uint in_part(uint weight_row) { return EXPERTS == 0 ? weight_row : min(weight_row, N - 1); }
bool is_in_part(uint weight_row) { return EXPERTS == 0 || weight_row < N; }
