// The step buffer: words that change from step to step. core/plan/step.py says the same.
#pragma once

#include <cstdint>

namespace llm {

constexpr int kStepHeaderWords = 16;
constexpr int kPage = 128;  // positions of a page of the cache

// What step buffers of a plan hold at most. Only plans for shared steps have segments.
struct StepShape {
  int64_t max_tokens, max_outputs;
  int64_t segments;   // sequences of one step
  int64_t table;      // pages of one sequence
  int64_t pages;      // of every cache
  int64_t slots = 1;  // sequences that may have gains of their own at a time; 1: of a plain plan
  int64_t ringed;     // pages of the first sequence, which are a ring in caches with fewer rows
  int64_t windowed;   // pages of the others that caches with a window have; 0: all
  int64_t states;     // slots of recurrent states
  int64_t source;     // positions of an encoder's keys and values; 0: none

  int64_t words() const {
    const int64_t plain = kStepHeaderWords + max_tokens;
    if (segments == 0) return plain;
    const int64_t windows = windowed > 0 ? pages - ringed : 0;
    const int64_t each = 2 + table + (states > 0 ? 2 : 0);
    return plain + 2 * max_tokens + max_outputs + segments * each + windows;
  }
};

// Tokens of one sequence that follow each other: all of a plain step, or a part of a shared one.
struct Segment {
  int32_t first;         // its first token, by its place in the step
  int32_t count;         // of tokens
  int32_t start;         // position of the first token
  const int32_t* pages;  // of the cache, by position / kPage; null but in a shared step
  int64_t slot = 0;      // whose gains its heads have
  int32_t state = -1;    // the slot that recurrent states go on from; below 0: from zeros
  int32_t left = 0;      // and the one that they are left in

  int64_t kv_length() const { return int64_t{start} + count; }
};

// The rows of a cache, and how many of them the first sequence has; 0: the cache has all pages.
struct CacheRows {
  int64_t all, ring;
};

struct Step {
  int32_t n_tokens;
  int32_t start;         // position of the first token
  int32_t kv_length;     // positions in the cache once this step's tokens are in
  int32_t first_output;  // the first token of the step whose logits are asked for
  int32_t n_outputs;
  const int32_t* tokens;  // [n_tokens]
  int workers;            // threads that share the work
  int32_t source;         // positions of an encoder's keys and values, which cross-attention sees
  // Of a shared step, else null or 0:
  int32_t n_segments;
  int32_t table;               // pages from one segment's table to the next
  const int32_t* positions;    // [n_tokens]
  const int32_t* segments;     // [n_tokens]
  const int32_t* outputs;      // [n_outputs], tokens whose logits are asked for
  const int32_t* first_token;  // [n_segments]
  const int32_t* slots;        // [n_segments]
  const int32_t* tables;       // [n_segments][table]
  const int32_t* windows;      // [others], where their pages lie in caches with a window
  const int32_t* states;       // [n_segments], and null without states, as `left`
  const int32_t* left;         // [n_segments]

  int64_t ringed;  // pages of the first sequence, which are a ring in caches with fewer rows
  int64_t others;  // pages of the others

  bool shared() const { return n_segments > 0; }
  // Where a page lies in a cache.
  int64_t place(int64_t page, const CacheRows& rows) const {
    if (rows.all >= (ringed + others) * kPage) return page;
    const int64_t ring = rows.ring / kPage, own = page - ringed;
    if (own < 0) return page % ring;
    return ring + (rows.all / kPage - ring >= others ? own : windows[own]);
  }
  int64_t parts() const { return shared() ? n_segments : 1; }
  int64_t position(int64_t token) const { return shared() ? positions[token] : start + token; }
  int64_t slot(int64_t token) const { return shared() ? slots[segments[token]] : 0; }
  int64_t output(int64_t index) const { return shared() ? outputs[index] : first_output + index; }
  // The row of a cache in which what a token leaves lies.
  int64_t cache_row(int64_t token, const CacheRows& rows) const {
    if (!shared()) return (start + token) % rows.all;
    const int32_t* const pages = tables + int64_t{table} * segments[token];
    return place(pages[positions[token] / kPage], rows) * kPage + positions[token] % kPage;
  }
  Segment part(int64_t index) const {
    if (!shared()) return {0, n_tokens, start, nullptr, 0, start > 0 ? 0 : -1, 0};
    const int32_t first = first_token[index];
    const int32_t end = index + 1 < n_segments ? first_token[index + 1] : n_tokens;
    const int32_t* const pages = tables + table * index;
    if (states == nullptr) return {first, end - first, positions[first], pages, slots[index]};
    return {first, end - first, positions[first], pages, slots[index], states[index], left[index]};
  }
};

static inline Step read_step(const int32_t* words, const StepShape& shape, int workers) {
  Step step = {};
  step.n_tokens = words[0];
  step.start = words[1];
  step.kv_length = words[2];
  step.first_output = words[3];
  step.n_outputs = words[4];
  step.tokens = words + kStepHeaderWords;
  step.workers = workers;
  step.source = words[6];
  if (shape.segments == 0) return step;
  step.n_segments = words[5];
  step.table = static_cast<int32_t>(shape.table);
  step.positions = step.tokens + shape.max_tokens;
  step.segments = step.positions + shape.max_tokens;
  step.outputs = step.segments + shape.max_tokens;
  step.first_token = step.outputs + shape.max_outputs;
  step.slots = step.first_token + shape.segments;
  step.tables = step.slots + shape.segments;
  step.windows = step.tables + shape.segments * shape.table;
  if (shape.states > 0) {
    step.states = step.windows + (shape.windowed > 0 ? shape.pages - shape.ringed : 0);
    step.left = step.states + shape.segments;
  }
  step.ringed = shape.ringed;
  step.others = shape.pages - shape.ringed;
  return step;
}

}  // namespace llm
