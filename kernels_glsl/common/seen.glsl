// Which positions a token's attention sees, and in which rows of the caches they lie. Needs
// positions.glsl and CACHE_ROWS.
layout(constant_id = 34) const uint BIDIRECTIONAL = 0;  // all positions of the sequence
layout(constant_id = 35) const uint CROSS = 0;          // all of the step's source, which is in no pages
layout(constant_id = 39) const uint FIRST = 0;          // where attention is causal, the first that is seen
layout(constant_id = 48) const uint RING_ROWS = 0;      // of CACHE_ROWS, as cache_row takes it

const bool CAUSAL = BIDIRECTIONAL == 0 && CROSS == 0;
const bool PAGED = TABLE_PAGES != 0 && CROSS == 0;  // the caches

// The last position that a token sees.
uint last_seen(uint token) {
  if (CAUSAL) return position_of(token);
  return (CROSS != 0 ? uint(step_words[SOURCE_LENGTH]) : kv_length_of(token)) - 1;
}

uint seen_row(uint table, uint position) {
  return CROSS == 0 ? cache_row(table, position, CACHE_ROWS, RING_ROWS) : position % CACHE_ROWS;
}
