// y[T*k,N]: row r = x[r] . weight[e*N:(e+1)*N,K]^T, e the expert that has the row by its starts
//
// Experts differ in how many rows they have, so tasks are cut by what they cost and not by experts:
// each has some rows of weights of one expert or several, and no worker waits for the largest one.
//
// Weights may lie in blocks as a file has them: the system keeps in memory what it has room for,
// and a row of tiles is made of them where it is multiplied.
#include <algorithm>

#include "base/aligned.h"
#include "ops/ahead.h"
#include "ops/experts.h"
#include "ops/kernels.h"
#include "ops/product.h"
#include "quant/row_of_tiles.h"

namespace llm {
namespace LLM_ISA {

// What reading a row of weights costs besides its products, in products.
constexpr int64_t kReadingCost = 4;

// The product of one expert, as an op of its own, whose weight are the tiles of its blocks if it
// lies so.
struct ExpertProduct {
  Tensor x, weight, y;
  const uint8_t* blocks;  // of its weight; null: its weight lies where it is
  int64_t stride;         // bytes of a row of blocks
  Op op;
  Wanted wanted;
  int64_t granule;  // rows of weights

  ExpertProduct(const Op& of, const Experts& experts, int64_t expert)
      : x(rows_of_expert(*of.in[0], experts, expert)),
        weight(*of.in[1]),
        y(rows_of_expert(*of.out[0], experts, expert)),
        blocks(nullptr),
        stride(row_bytes(weight.dtype, weight.n_cols)),
        op(of) {
    weight.n_rows = y.n_cols;
    weight.data += expert * y.n_cols * stride;
    if (layout_of(weight) == Layout::kRows) {
      blocks = weight.data;
      weight.dtype = kFormats[static_cast<int>(weight.dtype)].tiles;
    }
    op.in[0] = &x;
    op.in[1] = &weight;
    op.out[0] = &y;
    // Floats are multiplied as those of one token: their bits must not depend on other tokens'
    // choice
    wanted = x.dtype == DType::kA8 ? wanted_of_integers(x.n_rows) : Wanted{x.n_rows, false, false};
    granule = row_granule(op, wanted.by_panels);
  }
  ExpertProduct(const ExpertProduct&) = delete;  // `op` has pointers to the tensors

  int64_t granules() const { return (y.n_cols + granule - 1) / granule; }
  int64_t cost() const { return granule * (x.n_rows + kReadingCost); }  // of a granule
};

static int64_t expert_matmul_tasks(const Op& op, const Step& step) {
  const Tensor& x = *op.in[0];
  const int64_t rows = rows_in_use(x, step), experts = op.in[2]->n_cols - 1;
  const int64_t of_expert = op.out[0]->n_cols * row_bytes(op.in[1]->dtype, x.n_cols);
  const int64_t bytes = of_expert * (rows < experts ? rows : experts);
  const int64_t wanted = bytes / kTaskBytes * ((rows + experts - 1) / experts);
  const int64_t most = (step.n_tokens > 1 ? kPanelTasksPerWorker : kTasksPerWorker) * step.workers;
  return wanted < 1 ? 1 : wanted > most ? most : wanted;
}

// Granules of an expert that begin within [0, cost), `before` what those of others cost.
static int64_t granules_until(int64_t cost, int64_t before, const ExpertProduct& product) {
  if (cost <= before) return 0;
  const int64_t found = (cost - before + product.cost() - 1) / product.cost();
  return found < product.granules() ? found : product.granules();
}

// Makes the tiles of rows of weights, a multiple of their number in a tile, while those behind them
// are asked for.
static void make_tiles(DType dtype, const ExpertProduct& of, Range rows, uint8_t* tiles) {
  const int64_t size = rows.end - rows.begin, bytes = size * of.stride;
  const uint8_t* from = of.blocks + rows.begin * of.stride;
  const int64_t row_of_tiles = kTileRows * row_bytes(of.weight.dtype, of.weight.n_cols);
  const int64_t calls = size / kTileRows * (of.weight.n_cols / kTileColumns);
  const bool is_last = rows.end + size > of.y.n_cols;
  Ahead ahead(from + bytes, is_last ? 0 : 1, bytes, 0, calls);
  const auto make = [&](auto format) {
    typedef decltype(format) Format;
    for (int64_t row = 0; row < size; row += kTileRows) {
      make_row_of_tiles<Format>(from + row * of.stride, of.stride, kTileRows, tiles, [&] {
        for (int part = 0; part < Format::Tiles::kParts; ++part) ahead.ask();
      });
      tiles += row_of_tiles;
    }
  };
  by_format(dtype, Never(), make, Never());
}

// task.scratch: of a product, and tiles of a granule of rows behind it
static void multiply_blocks(DType dtype, ExpertProduct& of, Range rows, const Task& task,
                            uint8_t* tiles) {
  for (int64_t first = rows.begin; first < rows.end; first += of.granule) {
    const Range some = {first, first + of.granule < rows.end ? first + of.granule : rows.end};
    make_tiles(dtype, of, some, tiles);
    // Where the weight would begin, of which these are some rows
    of.weight.data = tiles - first * row_bytes(of.weight.dtype, of.weight.n_cols);
    multiply(of.op, of.wanted, some, task);
  }
}

static size_t before_tiles(const Tensor& x) {
  return (product_scratch(x) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

static void expert_matmul(const Op& op, const Step&, const Task& task) {
  const Experts experts(*op.in[2]);
  int64_t whole = 0, before = 0;
  experts.each([&](int64_t expert) {
    const ExpertProduct product(op, experts, expert);
    whole += product.granules() * product.cost();
  });
  const int64_t begin = whole * task.index / task.count,
                end = whole * (task.index + 1) / task.count;
  experts.each([&](int64_t expert) {
    ExpertProduct product(op, experts, expert);
    const int64_t first = granules_until(begin, before, product);
    const int64_t last = granules_until(end, before, product);
    before += product.granules() * product.cost();
    if (first == last) return;
    const int64_t n_rows = product.y.n_cols, to = last * product.granule;
    const Range rows = {first * product.granule, to < n_rows ? to : n_rows};
    Task of_expert = task;
    of_expert.kept += static_cast<uint64_t>(expert) + 1;  // what is kept is of its rows of x
    if (product.blocks == nullptr) {
      multiply(product.op, product.wanted, rows, of_expert);
    } else {
      uint8_t* tiles = task.scratch + before_tiles(*op.in[0]);
      multiply_blocks(op.in[1]->dtype, product, rows, of_expert, tiles);
    }
  });
}

static size_t expert_matmul_scratch(const Op& op) {
  const Tensor &x = *op.in[0], &weight = *op.in[1];
  if (layout_of(weight) != Layout::kRows) return product_scratch(x);
  const DType tiles = kFormats[static_cast<int>(weight.dtype)].tiles;
  const int64_t most = std::max<int64_t>(kTileRows, row_granule(op, true));
  return before_tiles(x) + most * row_bytes(tiles, weight.n_cols);
}

const Kernel kExpertMatmul = {expert_matmul_tasks, expert_matmul, expert_matmul_scratch};

}  // namespace LLM_ISA
}  // namespace llm
