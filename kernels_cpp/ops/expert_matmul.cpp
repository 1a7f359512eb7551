// y[T*k,N]: row r = x[r] . weight[e*N:(e+1)*N,K]^T, e the expert that has the row by its starts
//
// Experts differ in how many rows they have, so tasks are cut by what they cost and not by experts:
// each has some rows of weights of one expert or several, and no worker waits for the largest one.
#include "ops/experts.h"
#include "ops/kernels.h"
#include "ops/product.h"

namespace llm {
namespace LLM_ISA {

// What reading a row of weights costs besides its products, in products.
constexpr int64_t kReadingCost = 4;

// The product of one expert, as an op of its own.
struct ExpertProduct {
  Tensor x, weight, y;
  Op op;
  Wanted wanted;
  int64_t granule;  // rows of weights

  ExpertProduct(const Op& of, const Experts& experts, int64_t expert)
      : x(rows_of_expert(*of.in[0], experts, expert)),
        weight(*of.in[1]),
        y(rows_of_expert(*of.out[0], experts, expert)),
        op(of) {
    weight.n_rows = y.n_cols;
    weight.data += expert * y.n_cols * row_bytes(weight.dtype, weight.n_cols);
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
    const ExpertProduct product(op, experts, expert);
    const int64_t first = granules_until(begin, before, product);
    const int64_t last = granules_until(end, before, product);
    before += product.granules() * product.cost();
    if (first == last) return;
    const int64_t n_rows = product.y.n_cols, to = last * product.granule;
    Task of_expert = task;
    of_expert.kept += static_cast<uint64_t>(expert) + 1;  // what is kept is of its rows of x
    multiply(product.op, product.wanted, {first * product.granule, to < n_rows ? to : n_rows},
             of_expert);
  });
}

static size_t expert_matmul_scratch(const Op& op) { return product_scratch(*op.in[0]); }

const Kernel kExpertMatmul = {expert_matmul_tasks, expert_matmul, expert_matmul_scratch};

}  // namespace LLM_ISA
}  // namespace llm
