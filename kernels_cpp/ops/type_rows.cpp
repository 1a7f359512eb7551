// x[T,K] = table[how many separators its sequence has before the token], the last row for types
// that the table does not have
#include "ops/kernels.h"
#include "quant/dequantize.h"

namespace llm {
namespace LLM_ISA {

static void type_rows(const Op& op, const Step& step, const Task& task) {
  const Tensor &table = *op.in[0], &x = *op.out[0];
  const Range tokens = share(task, step.n_tokens);
  const int64_t separator = op.params.type_rows.separator, last = table.n_rows - 1;
  for (int64_t part = 0; part < step.parts(); ++part) {
    const Segment segment = step.part(part);
    int64_t type = 0;
    for (int64_t t = segment.first; t < segment.first + segment.count; ++t) {
      if (t >= tokens.begin && t < tokens.end) {
        dequantize(table, type < last ? type : last, 0, x.n_cols, row<float>(x, t));
      }
      type += step.tokens[t] == separator;
    }
  }
}

const Kernel kTypeRows = {row_tasks, type_rows, no_scratch};

}  // namespace LLM_ISA
}  // namespace llm
