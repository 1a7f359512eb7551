#version 450
#extension GL_GOOGLE_include_directive : require
// Attention probabilities of cached queries and keys, pooled by max into the cells of a map.
// A workgroup takes a job: up to ROWS rows of one head. Scores go to scratch once, so that each key
// is read once for all rows; a pixel of a cell is the largest probability of the
// (1 << shift) x (1 << shift) block of token pairs under it.
#include "common/lanes.glsl"
#include "common/cache.glsl"
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint KV_HEADS = 1;
layout(constant_id = 4) const uint HEAD_DIM = 2;
layout(constant_id = 5) const float SCALE = 1.0;
layout(constant_id = 6) const uint WINDOW = 0;  // 0: all positions
layout(constant_id = 7) const uint ROWS = 4;  // at most LANES
layout(constant_id = 8) const uint KEYS = 4;  // keys a lane takes together
layout(constant_id = 9) const uint KEY_ROWS = 1;  // position p lies in row p mod KEY_ROWS
layout(constant_id = 10) const float SOFTCAP = 0.0;  // 0: none
layout(constant_id = 11) const uint CROSS = 0;  // the keys are of another text than the tokens
struct Job { uint cell, first, count, scratch; };  // rows first .. first + count - 1; scratch: in rows
struct Cell {
  uint values;        // where its pixels begin, row by row
  uint width, height;
  uint head;
  uint row, column;   // positions at the upper left corner
  uint shift;
  uint rows;          // where its row scores begin, in rows; NO_ROWS: it keeps none
  float sink;         // of its head: a score that takes a share of each row; NONE: there is none
  uint columns;       // key positions that each row sees; 0: those up to its own
};
layout(push_constant) uniform Push {
  uint first_job;
  uint ring;     // rows of the query ring
  uint stride;   // scratch floats a row: at least the number of positions
  uint exclude;  // 1: the first position is left out and rows are renormalised
  uint scored;   // rows a head that row scores are kept of
};
layout(binding = 0) readonly buffer Jobs { Job jobs[]; };
layout(binding = 1) readonly buffer Cells { Cell cells[]; };
layout(binding = 2) readonly buffer Queries { CACHE_WORD query_words[]; };
layout(binding = 4) buffer Values { uint values[]; };  // 0: nothing, else bits of a float + 1
layout(binding = 5) coherent buffer Scratch { float scratch[]; };
layout(binding = 6) readonly buffer Tokens { uint tokens[]; };  // bit 31: stood earlier too
layout(binding = 7) writeonly buffer RowScores { uint row_scores[]; };

const uint PAIRS = HEAD_DIM / 2;
#define KEYS_BINDING 3
#define KEYS_BLOCK Keys
#include "common/keys.glsl"
#include "common/softcap.glsl"
#define BIAS_BINDING 8
#include "common/bias.glsl"
const uint SUMS = 4, ID = 0x7FFFFFFFu;
const uint NO_ROWS = 0xFFFFFFFFu;
const float NONE = -3.0e38;  // below every score, and finite: NONE - NONE is 0
shared vec2 queries[ROWS * PAIRS];
shared float parts[SUMS * ROWS * LANES];
#ifdef KEYS_I4
#include "common/rotated.glsl"
#define ROTATE rotate_queries
#define SHARED queries
#define COUNT (ROWS * PAIRS)
#include "common/rotate_shared.glsl"
#endif
shared float first_score[ROWS];      // of position 0
shared float largest[ROWS], total[ROWS];      // over all positions
shared float map_largest[ROWS], map_total[ROWS];  // over those the map shows

uint begin_of(uint row) { return WINDOW != 0 && row + 1 > WINDOW ? row + 1 - WINDOW : 0; }

// Behind the last position that a row sees.
uint end_of(Cell cell, uint row) { return cell.columns != 0 ? cell.columns : row + 1; }

void load_queries(Job job, uint head) {
  for (uint i = gl_LocalInvocationIndex; i < ROWS * PAIRS; i += LANES) {
    uint row = (job.first + i / PAIRS) % ring;
    bool wanted = i / PAIRS < job.count;
    queries[i] = wanted ? unpack_pair(query_words[(row * HEADS + head) * PAIRS + i % PAIRS]) * SCALE
                        : vec2(0.0);
  }
#ifdef KEYS_I4
  rotate_queries();
#endif
}

void score_keys(Job job, Cell cell, uint base) {
  uint group = cell.head * KV_HEADS / HEADS, end = end_of(cell, job.first + job.count - 1);
  float top[ROWS], sum[ROWS];
  for (uint i = 0; i < ROWS; ++i) {
    top[i] = NONE;
    sum[i] = 0.0;
  }
  uint begin = begin_of(job.first) + gl_LocalInvocationIndex;
  for (uint block = begin; block < end; block += KEYS * LANES) {
    float dots[KEYS * ROWS];
    uint rows[KEYS];
    for (uint k = 0; k < KEYS; ++k) {
      rows[k] = min(block + k * LANES, end - 1) % KEY_ROWS;
      for (uint i = 0; i < ROWS; ++i) dots[k * ROWS + i] = 0.0;
    }
    for (uint p = 0; p < PAIRS; p += KEY_STEP) {
      vec2 keys[KEYS][KEY_STEP];
      for (uint k = 0; k < KEYS; ++k) key_pairs(rows[k], group, p, keys[k]);
      for (uint i = 0; i < ROWS; ++i) {
        for (uint s = 0; s < KEY_STEP; ++s) {
          vec2 query = queries[i * PAIRS + p + s];
          for (uint k = 0; k < KEYS; ++k) dots[k * ROWS + i] += dot(query, keys[k][s]);
        }
      }
    }
    for (uint k = 0; k < KEYS; ++k) {
      uint at = block + k * LANES;
      float scale = key_scale(rows[k], group);
      for (uint i = 0; i < ROWS && at < end; ++i) {
        uint row = job.first + i;
        bool visible = i < job.count && at < end_of(cell, row) && at >= begin_of(row);
        float score = biased(dots[k * ROWS + i] * scale, cell.head, row, at);
        score = visible ? capped(score) : NONE;
        if (i < job.count) scratch[base + i * stride + at] = score;
        if (at == 0) {
          first_score[i] = score;
        } else if (visible) {
          float higher = max(top[i], score);
          sum[i] = sum[i] * exp(top[i] - higher) + exp(score - higher);
          top[i] = higher;
        }
      }
    }
  }
  for (uint i = 0; i < ROWS; ++i) {
    parts[2 * i * LANES + gl_LocalInvocationIndex] = top[i];
    parts[(2 * i + 1) * LANES + gl_LocalInvocationIndex] = sum[i];
  }
}

void normalise(uint i, float sink) {  // one lane a row: the lanes' maxima and sums become the row's
  float top = NONE, sum = 0.0;
  for (uint l = 0; l < LANES; ++l) top = max(top, parts[2 * i * LANES + l]);
  for (uint l = 0; l < LANES; ++l)
    sum += parts[(2 * i + 1) * LANES + l] * exp(parts[2 * i * LANES + l] - top);
  float first = first_score[i], higher = max(top, first);
  largest[i] = higher;
  total[i] = sum * exp(top - higher) + (first > NONE ? exp(first - higher) : 0.0);
  total[i] += sink > NONE ? exp(min(sink - higher, 80.0)) : 0.0;
  map_largest[i] = exclude != 0 ? top : largest[i];
  map_total[i] = exclude != 0 ? sum : total[i];
}

void draw_row(Job job, Cell cell, uint i, uint base) {
  uint row = job.first + i;
  if (row < cell.row || (row - cell.row) >> cell.shift >= cell.height) return;
  if (map_total[i] <= 0.0) return;
  uint pixels = cell.values + ((row - cell.row) >> cell.shift) * cell.width;
  uint begin = max(begin_of(row), exclude);
  for (uint x = gl_LocalInvocationIndex; x < cell.width; x += LANES) {
    uint from = cell.column + (x << cell.shift);
    uint to = min(from + (1u << cell.shift), end_of(cell, row));
    from = max(from, begin);
    if (from >= to) continue;
    float peak = NONE;
    for (uint at = from; at < to; ++at) peak = max(peak, scratch[base + i * stride + at]);
    float probability = exp(peak - map_largest[i]) / map_total[i];
    atomicMax(values[pixels + x], floatBitsToUint(probability) + 1);
  }
}

// The scores of core/inspect/attention_scores.py that are sums over a row: entropy in nats, the share of
// the previous token, of duplicates, of what followed them (induction). Of CROSS only the entropy.
void sum_scores(Job job, Cell cell, uint base) {
  uint lane = gl_LocalInvocationIndex;
  for (uint i = 0; i < ROWS; ++i) {
    uint row = job.first + i;
    vec4 sums = vec4(0.0);
    uint own = i < job.count ? tokens[row] & ID : 0;
    for (uint at = begin_of(row) + lane; i < job.count && at < end_of(cell, row); at += LANES) {
      float p = exp(scratch[base + i * stride + at] - largest[i]) / total[i];
      if (p > 0.0) sums.x -= p * log(p);
      if (CROSS != 0 || at > row) continue;
      if (at + 1 == row) sums.y += p;
      if (at < row && (tokens[at] & ID) == own) sums.z += p;
      if (at > 0 && (tokens[at - 1] & ID) == own) sums.w += p;
    }
    for (uint s = 0; s < SUMS; ++s) parts[(i * SUMS + s) * LANES + lane] = sums[s];
  }
}

void store_scores(Job job, Cell cell, uint i) {
  vec4 sums = vec4(0.0);
  for (uint l = 0; l < LANES; ++l)
    for (uint s = 0; s < SUMS; ++s) sums[s] += parts[(i * SUMS + s) * LANES + l];
  uint row = job.first + i, at = (cell.rows + row) * 3;
  // 1 + the last of ROWS that it is of
  float kind = row == 0 || CROSS != 0 ? 1.0 : tokens[row] > ID ? 3.0 : 2.0;
  bool sink = kind > 1.0 && first_score[i] > NONE;
  float first = sink ? exp(first_score[i] - largest[i]) / total[i] : 0.0;
  row_scores[at] = packHalf2x16(sums.xy);
  row_scores[at + 1] = packHalf2x16(sums.zw);
  row_scores[at + 2] = packHalf2x16(vec2(first, kind));
}

void main() {
  Job job = jobs[first_job + gl_WorkGroupID.x];
  Cell cell = cells[job.cell];
  uint base = job.scratch * stride, lane = gl_LocalInvocationIndex;
  if (lane < ROWS) first_score[lane] = NONE;
  load_queries(job, cell.head);
  barrier();
  score_keys(job, cell, base);
  memoryBarrierBuffer();
  barrier();
  if (lane < ROWS) normalise(lane, cell.sink);
  barrier();
  for (uint i = 0; i < job.count; ++i) draw_row(job, cell, i, base);
  if (cell.rows == NO_ROWS || job.first + job.count > scored) return;
  sum_scores(job, cell, base);
  barrier();
  if (lane < job.count) store_scores(job, cell, lane);
}
