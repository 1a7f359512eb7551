#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// As matmul_a8.comp with cooperative matrices: a tile of 64 x 64 outputs from one block of 32 values
// along K at a time, as halves. A row of x is divided by the largest scale of its blocks, so that none
// of its values leaves what a half can hold; weights do not, as in the mode fp16. Sums are float32. Four
// subgroups have 32 x 32 outputs each, in matrices of M_SIDE x N_SIDE.
#include "common/step.glsl"
#include "common/lanes.glsl"
layout(constant_id = 2) const uint K = 32;
layout(constant_id = 3) const uint N = 1;            // rows of this part of the weight
layout(constant_id = 4) const uint FIRST_ROW = 0;    // where the part begins in a row of y
layout(constant_id = 5) const uint Y_COLUMNS = 1;
layout(constant_id = 6) const uint M_SIDE = 16;
layout(constant_id = 7) const uint N_SIDE = 16;
layout(constant_id = 8) const uint K_SIDE = 16;
#include "common/weights.glsl"
#include "common/activations.glsl"
#include "common/product.glsl"
layout(binding = 4) writeonly buffer Y { float y[]; };

#define MATRIX(TYPE, ROWS, COLUMNS, USE) coopmat<TYPE, gl_ScopeSubgroup, ROWS, COLUMNS, USE>

const uint SIDE = 64, PART = 32;      // outputs of the workgroup and of a subgroup, each way
const uint STRIDE = 40;               // of a row of 32 halves in shared memory, apart in its banks
const uint ACROSS = PART / N_SIDE, DOWN = PART / M_SIDE;
shared float16_t x_tile[SIDE * STRIDE];  // [token][k]
shared float16_t w_tile[SIDE * STRIDE];  // [output][k]
shared float largest[SIDE];              // scale of each token
shared float results[4 * M_SIDE * N_SIDE];

uint token_row(uint t) { return min(gl_WorkGroupID.y * SIDE + t, rows_in_use() - 1); }

void find_largest() {
  for (uint t = gl_LocalInvocationIndex; t < SIDE; t += LANES) {
    float most = 0.0;
    for (uint block = 0; block < BLOCKS; ++block) most = max(most, x_scale(token_row(t), block).x);
    largest[t] = most > 0.0 ? most : 1.0;
  }
}

void put(bool of_x, uint row, uint q, uint word, float factor, float offset) {
  for (uint i = 0; i < 4; ++i) {
    float value = float(bitfieldExtract(int(word), int(8 * i), 8)) * factor + offset;
    if (of_x) x_tile[row * STRIDE + 4 * q + i] = float16_t(value);
    else w_tile[row * STRIDE + 4 * q + i] = float16_t(value);
  }
}

void load(uint block) {
  for (uint i = gl_LocalInvocationIndex; i < SIDE * 8; i += LANES) {
    uint t = i / 8, q = i % 8, row = token_row(t);
    float factor = x_scale(row, block).x / largest[t];
    put(true, t, q, uint(x_quad(row, block, q)), factor, float(x_zero(row, block)) * factor);
  }
  for (uint i = gl_LocalInvocationIndex; i < SIDE * 8; i += LANES) {
    uint n = i % SIDE, q = i / SIDE;
    uint at = min(gl_WorkGroupID.x * SIDE + n, N - 1) * ROW_BLOCKS + block;
    vec2 scale = quad_scale(at, SCALES == 2 ? q / 4 : 0);
    put(false, n, q, quad(at, q), scale.x, scale.y);
  }
}

void main() {
  if (gl_WorkGroupID.y * SIDE >= rows_in_use()) return;
  uint first_t = gl_SubgroupID / 2 * PART, first_n = gl_SubgroupID % 2 * PART;
  MATRIX(float, M_SIDE, N_SIDE, gl_MatrixUseAccumulator) sums[DOWN * ACROSS];
  for (uint i = 0; i < DOWN * ACROSS; ++i)
    sums[i] = MATRIX(float, M_SIDE, N_SIDE, gl_MatrixUseAccumulator)(0.0);
  find_largest();
  barrier();
  for (uint block = 0; block < BLOCKS; ++block) {
    load(block);
    barrier();
    for (uint k = 0; k < 32; k += K_SIDE) {
      MATRIX(float16_t, M_SIDE, K_SIDE, gl_MatrixUseA) x[DOWN];
      for (uint i = 0; i < DOWN; ++i)
        coopMatLoad(x[i], x_tile, (first_t + i * M_SIDE) * STRIDE + k, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
      for (uint j = 0; j < ACROSS; ++j) {
        MATRIX(float16_t, K_SIDE, N_SIDE, gl_MatrixUseB) w;
        coopMatLoad(w, w_tile, (first_n + j * N_SIDE) * STRIDE + k, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
        for (uint i = 0; i < DOWN; ++i)
          sums[i * ACROSS + j] = coopMatMulAdd(x[i], w, sums[i * ACROSS + j]);
      }
    }
    barrier();
  }
  uint own = gl_SubgroupID * M_SIDE * N_SIDE;
  for (uint i = 0; i < DOWN; ++i)
    for (uint j = 0; j < ACROSS; ++j) {
      coopMatStore(sums[i * ACROSS + j], results, own, N_SIDE, gl_CooperativeMatrixLayoutRowMajor);
      barrier();
      for (uint at = gl_SubgroupInvocationID; at < M_SIDE * N_SIDE; at += gl_SubgroupSize) {
        uint t = first_t + i * M_SIDE + at / N_SIDE;
        uint token = gl_WorkGroupID.y * SIDE + t;
        uint output_row = gl_WorkGroupID.x * SIDE + first_n + j * N_SIDE + at % N_SIDE;
        uint place = token * Y_COLUMNS + FIRST_ROW + output_row;
        if (token < rows_in_use() && output_row < N)
          y[place] = added(results[own + at] * largest[t], place);
      }
      barrier();
    }
}
