#include "plan/check.h"

#include <stdexcept>
#include <string>

namespace llm {
namespace {

using Check = bool (*)(const Op&);

bool is(const Tensor* t, DType dtype) { return t != nullptr && t->dtype == dtype; }
bool is_f32(const Tensor* t) { return is(t, DType::kF32); }
bool same_size(const Tensor* a, const Tensor* b) {
  return a->n_rows == b->n_rows && a->n_cols == b->n_cols && a->rows == b->rows &&
         a->per_token == b->per_token;
}
bool has(const Tensor* t, Layout layout) { return t != nullptr && layout_of(*t) == layout; }
bool is_weight(const Tensor* t) { return t != nullptr && !has(t, Layout::kActivations); }
// With a scale for each block of a row, of whole words
bool is_scaled(const Tensor* t) {
  if (is(t, DType::kI8)) return t->block > 0 && t->block % 4 == 0;
  return is(t, DType::kI4) && t->block > 0 && t->block % 8 == 0 && t->block <= kMostRotated;
}
bool is_cache(const Tensor* t) {
  return is_f32(t) || is(t, DType::kF16) || (is_scaled(t) && t->n_cols % t->block == 0);
}
bool whole_heads(const Tensor* t, int64_t head_dim) {
  return !is_scaled(t) || t->block == head_dim;
}
bool whole_blocks(const Tensor* t) {
  const int64_t block = kFormats[static_cast<int>(t->dtype)].block_size;
  return t->n_cols % (t->dtype == DType::kA8 ? kA8Block : block) == 0;
}

// The first inputs and the output, in as many rows.
bool all_f32(const Op& op, int inputs) {
  bool fits = is_f32(op.out[0]);
  for (int i = 0; i < inputs; ++i) {
    fits = fits && is_f32(op.in[i]) && op.in[i]->rows == op.out[0]->rows &&
           op.in[i]->n_rows == op.out[0]->n_rows;
  }
  return fits;
}
// Elementwise and rowwise ops: all operands have one size.
template <int kInputs>
bool alike(const Op& op) {
  bool fits = all_f32(op, kInputs);
  for (int i = 0; i < kInputs; ++i) fits = fits && same_size(op.in[i], op.out[0]);
  return fits;
}
// A vector as wide as the output's rows.
bool spans(const Tensor* vector, const Op& op) {
  return is_f32(vector) && vector->n_cols == op.out[0]->n_cols;
}

bool embed(const Op& op) {
  return is_weight(op.in[0]) && is_f32(op.out[0]) && op.in[0]->n_cols == op.out[0]->n_cols;
}
bool table_rows(const Op& op) { return embed(op); }
bool position_rows(const Op& op) {
  const int64_t first = op.params.position_rows.first;
  return embed(op) && first >= 0 && first < op.in[0]->n_rows;
}
bool type_rows(const Op& op) { return embed(op) && op.in[0]->n_rows > 0; }
bool rms_norm(const Op& op) {
  const int64_t width = op.params.rms_norm.width;
  const Tensor* weight = op.in[1];
  const bool fits = weight == nullptr || (is_f32(weight) && weight->n_cols == width);
  return alike<1>(op) && width > 0 && op.in[0]->n_cols % width == 0 && fits;
}
bool layer_norm(const Op& op) {
  return alike<1>(op) && spans(op.in[1], op) && (op.in[2] == nullptr || spans(op.in[2], op));
}
bool quantize(const Op& op) {
  return is_f32(op.in[0]) && is(op.out[0], DType::kA8) && same_size(op.in[0], op.out[0]);
}
// All columns of the weight, or the first of them in whole blocks.
bool spans_first(const Tensor& x, const Tensor& weight) {
  const int64_t block = kFormats[static_cast<int>(weight.dtype)].block_size;
  return x.n_cols == weight.n_cols || (x.n_cols < weight.n_cols && x.n_cols % block == 0);
}
bool matmul(const Op& op) {
  const Tensor *x = op.in[0], *weight = op.in[1], *y = op.out[0];
  const bool types = is_f32(x) ? is_weight(weight) && !has(weight, Layout::kRows)
                               : is(x, DType::kA8) && has(weight, Layout::kTiles);
  return types && is_f32(y) && spans_first(*x, *weight) && y->n_cols <= weight->n_rows &&
         x->n_rows == y->n_rows && x->rows == y->rows && x->per_token == 1;
}
bool rope(const Op& op) {
  const int64_t head_dim = op.params.rope.head_dim, rotary_dim = op.params.rope.rotary_dim;
  if (op.params.rope.temperature_length < 1) return false;
  if (!alike<1>(op) || head_dim < 1 || rotary_dim < 0 || rotary_dim > head_dim) return false;
  const bool factors =
      op.in[1] == nullptr || (is_f32(op.in[1]) && op.in[1]->n_cols == rotary_dim / 2);
  return op.in[0]->rows == Rows::kTokens && op.in[0]->n_cols % head_dim == 0 && factors;
}
bool store(const Op& op) {
  for (int i = 0; i < kMaxOutputs && (i == 0 || op.out[i] != nullptr); ++i) {
    if (!is_f32(op.in[i]) || !is_cache(op.out[i])) return false;
    if (op.in[i]->n_cols != op.out[i]->n_cols || op.in[i]->rows != Rows::kTokens) return false;
    if (op.in[i]->n_rows > op.out[i]->n_rows) return false;
  }
  return true;
}
// A row of columns a head, one of which is that of a distance of 0.
bool is_bias(const Tensor& bias, const AttentionParams& params) {
  const int64_t before = params.bias_before;
  return is_f32(&bias) && bias.n_rows == params.heads && before >= 0 && before < bias.n_cols &&
         !params.cross;
}
// Windows are of causal attention, and a source is another sequence.
bool sees(const AttentionParams& params) {
  const bool all = params.bidirectional || params.cross;
  return !(all && (params.window > 0 || params.first > 0)) && params.first >= 0 &&
         !(params.bidirectional && params.cross);
}
bool attention(const Op& op) {
  const Tensor *q = op.in[0], *keys = op.in[1], *values = op.in[2], *gains = op.in[3];
  const int64_t heads = op.params.attention.heads, kv_heads = op.params.attention.kv_heads;
  const int64_t head_dim = op.params.attention.head_dim, layer = op.params.attention.layer;
  const Tensor *sinks = op.in[4], *bias = op.in[5];
  if (sinks != nullptr && (!is_f32(sinks) || sinks->n_cols != heads)) return false;
  if (bias != nullptr && !is_bias(*bias, op.params.attention)) return false;
  if (!sees(op.params.attention)) return false;
  if (!is_f32(gains) || gains->n_cols != heads || layer < 0 || layer >= gains->n_rows) return false;
  return alike<1>(op) && q->rows == Rows::kTokens && is_cache(keys) && is_cache(values) &&
         whole_heads(keys, head_dim) && whole_heads(values, head_dim) && kv_heads > 0 &&
         heads % kv_heads == 0 && q->n_cols == heads * head_dim && same_size(keys, values) &&
         keys->n_cols == kv_heads * head_dim;
}
// [slots * rows][columns] beside rows of tokens
bool is_state(const Tensor* state, int64_t columns) {
  return is_f32(state) && state->n_cols == columns && state->rows == Rows::kFixed;
}
bool causal_conv(const Op& op) {
  const int64_t taps = op.params.causal_conv.taps;
  const Tensor *x = op.in[0], *weight = op.in[1];
  return alike<1>(op) && taps > 1 && taps <= 16 && x->rows == Rows::kTokens && is_f32(weight) &&
         weight->n_cols == taps * x->n_cols && is_state(op.out[1], x->n_cols);
}
bool delta_rule(const Op& op) {
  const auto [heads, key_heads, key_dim, value_dim, tiled] = op.params.delta_rule;
  if (heads < 1 || key_heads < 1 || heads % key_heads != 0 || key_dim < 1) return false;
  const Tensor *qkv = op.in[0], *decay = op.in[1], *beta = op.in[2];
  if (!all_f32(op, 3) || qkv->rows != Rows::kTokens) return false;
  const bool sizes = qkv->n_cols == 2 * key_heads * key_dim + heads * value_dim &&
                     decay->n_cols == heads && beta->n_cols == heads &&
                     op.out[0]->n_cols == heads * value_dim;
  const bool vectors = is_f32(op.in[3]) && is_f32(op.in[4]) && op.in[3]->n_cols == heads &&
                       op.in[4]->n_cols == heads;
  return sizes && vectors && is_state(op.out[1], value_dim);
}
// A choice of experts [T, k]
bool is_choice(const Tensor* t) {
  return is_f32(t) && t->rows == Rows::kTokens && t->per_token == 1 && t->n_cols > 0;
}
// [1, experts + 1]
bool is_starts(const Tensor* t) {
  return is_f32(t) && t->rows == Rows::kFixed && t->n_rows == 1 && t->n_cols > 1;
}
bool route(const Op& op) {
  const Tensor *logits = op.in[0], *experts = op.out[0];
  const int64_t groups = op.params.route.groups, chosen = op.params.route.chosen_groups;
  if (!is_choice(logits) || !is_choice(experts) || !is_choice(op.out[1])) return false;
  const int64_t n = logits->n_cols, count = experts->n_cols;
  for (const Tensor* vector : {op.in[1], op.in[2]}) {
    if (vector != nullptr && (!is_f32(vector) || vector->n_cols != n)) return false;
  }
  const Tensor* switches = op.in[3];
  const int64_t layer = op.params.route.layer;
  if (switches != nullptr) {
    if (!is_state(switches, 2 * n) || layer < 0 || layer >= switches->n_rows) return false;
  }
  if (groups < 1 || n % groups != 0 || chosen < 1 || chosen > groups) return false;
  return count <= n / groups * chosen && same_size(experts, op.out[1]) &&
         logits->n_rows == experts->n_rows;
}
bool expert_places(const Op& op) {
  return is_choice(op.in[0]) && op.out[0] != nullptr && same_size(op.in[0], op.out[0]) &&
         is_f32(op.out[0]) && is_starts(op.out[1]);
}
// Rows of x are those of choices.
bool of_choices(const Tensor* x, const Tensor* places) {
  return x != nullptr && x->rows == Rows::kTokens && is_choice(places) &&
         x->per_token == places->n_cols && x->n_rows == places->n_rows * places->n_cols;
}
bool expert_rows(const Op& op) {
  const Tensor *x = op.in[0], *y = op.out[0];
  const bool types = is_f32(x) || is(x, DType::kA8);
  return types && x->rows == Rows::kTokens && x->per_token == 1 && of_choices(y, op.in[1]) &&
         is(y, x->dtype) && x->n_cols == y->n_cols && x->n_rows == op.in[1]->n_rows;
}
bool expert_matmul(const Op& op) {
  const Tensor *x = op.in[0], *weight = op.in[1], *y = op.out[0];
  const bool blocks = has(weight, Layout::kTiles) || has(weight, Layout::kRows);
  const bool types = is_f32(x) ? is_weight(weight) : is(x, DType::kA8) && blocks;
  if (!types || !is_f32(y) || !is_starts(op.in[2])) return false;
  const bool whole = !blocks || y->n_cols % kTileRows == 0;
  return whole && x->rows == Rows::kTokens && y->rows == Rows::kTokens &&
         x->per_token == y->per_token && x->n_rows == y->n_rows && x->n_cols == weight->n_cols &&
         weight->n_rows == y->n_cols * (op.in[2]->n_cols - 1);
}
bool expert_bias(const Op& op) {
  const Tensor *x = op.in[0], *bias = op.in[1], *y = op.out[0];
  return is_f32(x) && is_f32(bias) && is_f32(y) && same_size(x, y) && is_starts(op.in[2]) &&
         bias->n_cols == x->n_cols * (op.in[2]->n_cols - 1);
}
bool expert_sum(const Op& op) {
  const Tensor *x = op.in[0], *places = op.in[1], *shares = op.in[2], *y = op.out[0];
  return is_f32(x) && of_choices(x, places) && is_choice(shares) && same_size(places, shares) &&
         is_f32(y) && y->rows == Rows::kTokens && y->per_token == 1 && y->n_cols == x->n_cols &&
         y->n_rows == places->n_rows;
}
bool token_gate(const Op& op) {
  const Tensor *x = op.in[0], *h = op.in[1], *weight = op.in[2];
  return is_f32(x) && is_f32(h) && is_f32(weight) && is_f32(op.out[0]) && same_size(x, op.out[0]) &&
         h->n_rows == x->n_rows && h->rows == x->rows && h->per_token == x->per_token &&
         weight->n_cols == h->n_cols;
}
bool shift(const Op& op) {
  const Tensor *x = op.in[0], *shifts = op.in[1];
  const int64_t layer = op.params.shift.layer;
  return alike<1>(op) && x->rows == Rows::kTokens && x->per_token == 1 &&
         is_state(shifts, x->n_cols) && layer >= 0 && layer < shifts->n_rows;
}
bool add_bias(const Op& op) { return alike<1>(op) && spans(op.in[1], op); }
bool scale(const Op& op) { return alike<1>(op) && (op.in[1] == nullptr || spans(op.in[1], op)); }
bool columns(const Op& op) {
  const auto [first, run, stride] = op.params.columns;
  if (!all_f32(op, 1) || first < 0 || run < 1 || stride < run) return false;
  const int64_t runs = op.out[0]->n_cols / run;
  return runs > 0 && op.out[0]->n_cols % run == 0 &&
         first + (runs - 1) * stride + run <= op.in[0]->n_cols;
}
bool concat(const Op& op) {
  return all_f32(op, 2) && op.in[0]->n_cols + op.in[1]->n_cols == op.out[0]->n_cols;
}
// `streams` of op.in[1]'s columns make op.in[0]'s.
bool streams_of(const Op& op, int64_t streams, int64_t columns) {
  return same_size(op.in[0], op.out[0]) && op.in[0]->n_cols == streams * columns;
}
bool altup_predict(const Op& op) {
  if (!all_f32(op, 2)) return false;
  int64_t streams = 1;
  while (streams * streams < op.in[1]->n_cols) ++streams;
  return streams * streams == op.in[1]->n_cols && op.in[0]->n_cols % streams == 0 &&
         same_size(op.in[0], op.out[0]);
}
bool altup_correct(const Op& op) {
  const int64_t active = op.params.altup_correct.active;
  return all_f32(op, 3) && active >= 0 && active < op.in[2]->n_cols &&
         streams_of(op, op.in[2]->n_cols, op.in[1]->n_cols);
}
bool add_streams(const Op& op) {
  return all_f32(op, 2) && op.in[1]->n_cols > 0 &&
         streams_of(op, op.in[0]->n_cols / op.in[1]->n_cols, op.in[1]->n_cols);
}
bool output_rows(const Op& op) {
  return is_f32(op.in[0]) && is_f32(op.out[0]) && op.in[0]->n_cols == op.out[0]->n_cols &&
         op.in[0]->rows == Rows::kTokens && op.out[0]->rows == Rows::kOutputs;
}

#define LLM_CHECK(name, check) check,
constexpr Check kChecks[] = {LLM_OPS(LLM_CHECK)};
#undef LLM_CHECK

}  // namespace

void check_op(const Op& op, size_t index) {
  const auto code = static_cast<size_t>(op.code);
  bool fits = code < static_cast<size_t>(kOpCount);
  for (const Tensor* t : op.in) fits = fits && (t == nullptr || whole_blocks(t));
  for (const Tensor* t : op.out) fits = fits && (t == nullptr || whole_blocks(t));
  if (!fits || !kChecks[code](op)) {
    throw std::invalid_argument("the operands of op " + std::to_string(index) +
                                " do not fit together");
  }
}

}  // namespace llm
