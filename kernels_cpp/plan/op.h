// A plan as the kernels see it: ops over tensors whose memory is settled.
//
// Included by files that are compiled once for each instruction set, so every function here has
// internal linkage: the linker must never pick an AVX copy for code that runs on any machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/step.h"
#include "logits/logits.h"
#include "plan/ops.h"
#include "quant/dtype.h"

namespace llm {

enum class Rows : int32_t { kFixed, kTokens, kOutputs };

struct Tensor {
  uint8_t* data;
  DType dtype;
  Rows rows;
  int64_t per_token;  // rows of each token, of kTokens: one for each chosen expert; else 1
  int64_t n_rows;     // at most in use
  int64_t n_cols;
  int64_t block;  // of kI8 and kI4: values that share a scale
  int64_t ring;   // of a cache in pages: rows of the first sequence, which may be a ring; 0: all

  CacheRows cache_rows() const { return {n_rows, ring}; }
};

struct Op {
  OpCode code;
  const Tensor* in[kMaxInputs];    // null where left out
  const Tensor* out[kMaxOutputs];  // and so
  Params params;                   // the member of the op's name, if it has any
  const float* angles;             // rope: as plan/rope_angles.h says
  int64_t segments;                // of a shared step at most; else 0
  int64_t positions;               // of a sequence at most, where several share a step; else 0
  int64_t slot_layers;   // attention, route, shift: rows of one sequence's gains and such; else 0
  bool whole_sequences;  // of an encoder: the tokens of a sequence are all in one step
  // Of a plan with int8 activations: a token gets the bits that it would get alone, in any step.
  // What differs by a rounding would be another int8.
  bool as_alone;
};

// One of `count` pieces of an op; `scratch` is the worker's own, `shared` is of all of the op.
struct Task {
  int64_t index;
  int64_t count;
  uint8_t* scratch;
  uint8_t* shared;
  // As long as it stays the same, and is not 0, all tasks of this worker have been of one kernel
  // and one first input, whose values have not changed.
  uint64_t kept;
};

struct Kernel {
  int64_t (*n_tasks)(const Op&, const Step&);
  void (*run)(const Op&, const Step&, const Task&);
  size_t (*scratch_bytes)(const Op&);
  // Of an op whose tasks, if there are several, leave parts for one thread to put together:
  size_t (*shared_bytes)(const Op&) = nullptr;
  void (*finish)(const Op&, const Step&, uint8_t* shared) = nullptr;
};

// Writes the best tile for kTileRows x 32 values, `stride` apart from row to row, of which `rows`
// are there; importance: 32 weights of squared errors, a column each.
struct TileQuantizer {
  void (*run)(const float* values, int64_t stride, int64_t rows, const float* importance,
              uint8_t* tile);
  int64_t tile_bytes;
};

struct KernelTable {
  Kernel kernels[kOpCount];
  TileQuantizer int4, int8;
  LogitKernels logits;
};

constexpr int64_t kMostRotated = 1024;  // values of a block of kI4, which is rotated on the stack

static inline Layout layout_of(const Tensor& tensor) {
  return kFormats[static_cast<int>(tensor.dtype)].layout;
}

static inline int64_t row_bytes(DType dtype, int64_t n_cols, int64_t block = 1) {
  if (dtype == DType::kA8) return n_cols + 12 * (n_cols / kA8Block);
  // float16 scales behind the values, whole words in all
  if (dtype == DType::kI8) return (n_cols + 2 * (n_cols / block) + 3) / 4 * 4;
  if (dtype == DType::kI4) return (n_cols / 2 + 2 * (n_cols / block) + 3) / 4 * 4;
  const FormatRow& format = kFormats[static_cast<int>(dtype)];
  return n_cols / format.block_size * format.block_bytes;
}

static inline int64_t row_bytes(const Tensor& tensor) {
  return row_bytes(tensor.dtype, tensor.n_cols, tensor.block);
}

static inline int64_t rows_in_use(const Tensor& tensor, const Step& step) {
  if (tensor.rows == Rows::kTokens) return step.n_tokens * tensor.per_token;
  if (tensor.rows == Rows::kOutputs) return step.n_outputs;
  return tensor.n_rows;
}

template <typename T>
static inline T* row(const Tensor& tensor, int64_t index) {
  return reinterpret_cast<T*>(tensor.data + index * row_bytes(tensor));
}

static inline bool in_tiles(const Tensor& weight) { return layout_of(weight) == Layout::kTiles; }

// Where the tile of a row begins, the first of those along its columns.
static inline const uint8_t* tile_row(const Tensor& tensor, int64_t index) {
  return tensor.data + index / kTileRows * kTileRows * row_bytes(tensor.dtype, tensor.n_cols);
}

struct Range {
  int64_t begin, end;
};

// The share of `total` items that a task has, in whole granules.
static inline Range share(const Task& task, int64_t total, int64_t granule = 1) {
  const int64_t granules = (total + granule - 1) / granule;
  const int64_t begin = granules * task.index / task.count * granule;
  const int64_t end = granules * (task.index + 1) / task.count * granule;
  return {begin, end < total ? end : total};
}

}  // namespace llm
