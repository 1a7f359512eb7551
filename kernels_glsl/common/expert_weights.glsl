// Rows of the weights of experts, which lie one behind the other, EXPERT_ROWS each; a part has N of them,
// from FIRST_ROW on. Without experts a part has rows of one matrix. Needs both, and HALVES.
#include "common/experts.glsl"
layout(constant_id = 25) const uint EXPERT_ROWS = 1;
const uint OUTPUTS = EXPERTS == 0 ? N / HALVES : EXPERT_ROWS;
const uint Y_FIRST = EXPERTS == 0 ? FIRST_ROW : 0;  // where they begin in a row of y

// Of a row of x: where its expert's weights begin among all.
uint first_of_expert(uint row) { return EXPERTS == 0 ? FIRST_ROW : expert_of(row) * EXPERT_ROWS; }

// Whether none of them are in the part, by where they begin.
bool are_elsewhere(uint first) {
  return EXPERTS != 0 && (first >= FIRST_ROW + N || first + EXPERT_ROWS <= FIRST_ROW);
}

uint in_part(uint weight_row) { return EXPERTS == 0 ? weight_row : min(weight_row, N - 1); }
bool is_in_part(uint weight_row) { return EXPERTS == 0 || weight_row < N; }
