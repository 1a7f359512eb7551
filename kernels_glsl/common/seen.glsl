// Which positions a token's attention sees, in which rows of the caches they lie, and what is added to
// their scores by distance. Needs positions.glsl, CACHE_ROWS and BIAS_BINDING.
layout(constant_id = 34) const uint BIDIRECTIONAL = 0;  // all positions of the sequence
layout(constant_id = 35) const uint CROSS = 0;          // all of the step's source, which is in no pages
layout(constant_id = 36) const uint BIAS_COLUMNS = 0;   // 0: no bias
layout(constant_id = 37) const uint BIAS_STRIDE = 0;    // floats from head to head
layout(constant_id = 38) const uint BIAS_BEFORE = 0;    // the column for a distance of 0
layout(binding = BIAS_BINDING) readonly buffer Bias { float bias[]; };

const bool CAUSAL = BIDIRECTIONAL == 0 && CROSS == 0;
const bool PAGED = TABLE_PAGES != 0 && CROSS == 0;  // the caches

// The last position that a token sees.
uint last_seen(uint token) {
  if (CAUSAL) return position_of(token);
  return (CROSS != 0 ? uint(step_words[SOURCE_LENGTH]) : kv_length_of(token)) - 1;
}

uint seen_row(uint table, uint position) {
  return PAGED ? cache_row(table, position, CACHE_ROWS) : position % CACHE_ROWS;
}

// The score of a position, with the bias for its distance from the query's `own`.
float biased(float score, uint head, uint own, uint position) {
  if (BIAS_COLUMNS == 0) return score;
  uint column = max(BIAS_BEFORE + position, own) - own;
  return score + bias[head * BIAS_STRIDE + min(column, BIAS_COLUMNS - 1)];
}
