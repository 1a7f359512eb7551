// What attention reads: queries, their biases, and a head's rows of a cache of keys or values.
#pragma once

#include "base/exp.h"
#include "ops/cache_values.h"
#include "ops/digits.h"
#include "ops/kernels.h"
#include "ops/rotate.h"

namespace llm {
namespace LLM_ISA {

constexpr int64_t kMaxQueries = 48;  // query rows of a task: tokens x heads that share keys
constexpr int64_t kPositions = 128;  // of a chunk, whose scores are there before they are weighed
constexpr int64_t kLine = 64;        // bytes of a cache line

struct Shape {
  int64_t heads, kv_heads, head_dim, window, first;
  float scale, softcap;
  bool bidirectional, cross;
  int64_t group() const { return heads / kv_heads; }
};

inline Shape shape_of(const Op& op) {
  const AttentionParams& params = op.params.attention;
  return {params.heads, params.kv_heads, params.head_dim,      params.window, params.first,
          params.scale, params.softcap,  params.bidirectional, params.cross};
}

// The first position that a query before `end` sees, where attention is causal.
inline int64_t first_seen(const Shape& shape, int64_t end) {
  const int64_t begin = shape.window > 0 && end > shape.window ? end - shape.window : 0;
  return begin > shape.first ? begin : shape.first;
}

inline int64_t padded(int64_t n) { return (n + kWidth - 1) / kWidth * kWidth; }

// What is added to the scores of a query row, by the distance from its position to a key's.
struct Bias {
  const float* row;  // [columns] of its head; null: nothing is added
  int64_t columns;
  int64_t shift;  // column of position 0: positions outside the row take the nearest column

  // Of the positions p..p+kWidth-1
  F32 at(int64_t p) const {
    const int64_t first = p + shift, last = columns - 1;
    if (first >= 0 && first + kWidth <= columns) return load(row + first);
    if (first >= last) return broadcast(row[last]);
    if (first + kWidth <= 1) return broadcast(row[0]);
    F32 values;
    for (int i = 0; i < kWidth; ++i) {  // an end of the row is among them
      const int64_t column = first + i < 0 ? 0 : first + i;
      values[i] = row[column < last ? column : last];
    }
    return values;
  }
};

// What some positions leave of a query: the sum of their values by weight, and that of the weights,
// both relative to e^most.
struct WeightedSum {
  float* values;  // [padded d]
  float most, weight;
};

// One query row. It gathers a part of the positions after the other.
struct Query {
  float* q;    // [padded d], scaled
  float* out;  // [d]
  WeightedSum part, total;
  float gain, softcap, sink;
  int64_t begin, end;  // the positions it sees
  Bias bias;
  DigitRow digits = {};  // of q, where keys are transposed
};

// n scores, a multiple of kWidth
inline void cap(float* scores, int64_t n, float softcap) {
  for (int64_t i = 0; i < n; i += kWidth) {
    store(scores + i, tanh(load(scores + i) / softcap) * softcap);
  }
}

// Memory that is asked for while other memory is in use, a few lines with every key: more at once
// would wait for each other.
struct Stream {
  const uint8_t *at, *end;
  int lines;

  void ask(int64_t n = 1) {
    if (at >= end) return;
    for (int64_t i = 0; i < n * lines; ++i) __builtin_prefetch(at + i * kLine);
    skip(n);
  }
  void skip(int64_t n) { at += n * lines * kLine; }
};

// A head's rows of one cache, as T; some types have a scale a row.
template <typename T>
struct HeadRows {
  const uint8_t* first;  // the head's values in row 0
  int64_t stride;        // bytes from row to row
  int64_t to_scale;      // bytes from a row's values to its scale

  // The values of row i from a column on
  const T* at(int64_t i, int64_t column = 0) const {
    return along(reinterpret_cast<const T*>(first + i * stride), column);
  }
  HeadRows from(int64_t i) const { return {first + i * stride, stride, to_scale}; }
  float scale(int64_t i) const {
    if constexpr (!kHasScale<T>) return 1;
    Half half;
    std::memcpy(&half, first + i * stride + to_scale, sizeof half);
    return to_float(half);
  }
  // Of rows i .. i + n, n <= kWidth; 0 behind them
  F32 scales(int64_t i, int64_t n) const {
    if constexpr (!kHasScale<T>) return broadcast(1);
    if (n >= kWidth) return load_halves(first + i * stride + to_scale, stride);
    F32 some = {};
    for (int64_t j = 0; j < n; ++j) some[j] = scale(i + j);
    return some;
  }
};

// Rows of a cache that are asked for while others are multiplied, a few at a time: many at once
// would wait for each other, and what is read meanwhile for them.
struct RowsAhead {
  const uint8_t* at;      // the next one
  int64_t stride, bytes;  // from row to row, and of the values of one
  int64_t to_scale;       // from a row to its scale; negative: it has none
  int64_t left;           // rows

  void ask(int64_t n) {
    for (n = n < left ? n : left; n > 0; --n, --left, at += stride) {
      for (int64_t line = 0; line < bytes; line += kLine) __builtin_prefetch(at + line, 0, 2);
      if (to_scale >= 0) __builtin_prefetch(at + to_scale, 0, 2);
    }
  }
};

// n rows from row i on
template <typename T>
inline RowsAhead rows_ahead(const HeadRows<T>& rows, int64_t i, int64_t n, int64_t d) {
  const int64_t to_scale = kHasScale<T> ? rows.to_scale : -1;
  return {rows.first + i * rows.stride, rows.stride, value_bytes<T>(d), to_scale, n};
}

// Rows of caches in which the positions of a sequence lie.
struct Places {
  CacheRows rows;              // position p lies in row p mod `rows.all`,
  const int32_t* pages;        // unless there are pages, by p / kPage
  const Step* step = nullptr;  // that has the pages

  int64_t row(int64_t p) const {
    if (pages != nullptr) return step->place(pages[p / kPage], rows) * kPage + p % kPage;
    return p % rows.all;
  }
  // That of the position behind the one in `row`, in the same page
  int64_t next_row(int64_t row) const { return row + 1 < rows.all ? row + 1 : 0; }
  // Whether positions of a chunk lie in rows that follow each other.
  bool adjoin(int64_t p, int64_t n) const { return row(p + n - 1) == row(p) + n - 1; }
  // How many positions from p on, at most n, lie side by side.
  int64_t run(int64_t p, int64_t n) const {
    const int64_t left = pages == nullptr ? rows.all - p % rows.all : kPage - p % kPage;
    return n < left ? n : left;
  }
};

template <typename T>
inline HeadRows<T> head_rows(const Tensor& cache, int64_t group, int64_t d) {
  const int64_t column = value_bytes<T>(group * d);
  return {cache.data + column, row_bytes(cache), value_bytes<T>(cache.n_cols) + 2 * group - column};
}

}  // namespace LLM_ISA
}  // namespace llm
