// Where a token is, and in which row of a cache a position of its sequence lies. Of a plain step all
// tokens are of one sequence and follow each other, and a cache is a ring. Of a shared step the step
// buffer tells it for every token, as core/plan/step.py packs it: each sequence has a table of pages.
layout(constant_id = 30) const uint TABLE_PAGES = 0;  // pages of a sequence, at most; 0: plain steps
layout(constant_id = 31) const uint MAX_TOKENS = 0;
layout(constant_id = 32) const uint MAX_OUTPUTS = 0;
layout(constant_id = 33) const uint MAX_SEGMENTS = 0;
layout(constant_id = 46) const uint RINGED = 0;  // pages of the first sequence, a ring in caches with fewer rows
layout(constant_id = 47) const uint OTHERS = 0;  // pages of the other sequences

const uint PAGE = 128;  // positions
const uint POSITION_WORDS = HEADER_WORDS + MAX_TOKENS;
const uint SEGMENT_WORDS = POSITION_WORDS + MAX_TOKENS;
const uint OUTPUT_WORDS = SEGMENT_WORDS + MAX_TOKENS;
const uint FIRST_TOKEN_WORDS = OUTPUT_WORDS + MAX_OUTPUTS;
const uint SLOT_WORDS = FIRST_TOKEN_WORDS + MAX_SEGMENTS;
const uint TABLE_WORDS = SLOT_WORDS + MAX_SEGMENTS;
const uint WINDOW_WORDS = TABLE_WORDS + MAX_SEGMENTS * TABLE_PAGES;  // of caches with a window

uint position_of(uint token) {
  return TABLE_PAGES == 0 ? start_position() + token
                    : uint(step_words[POSITION_WORDS + token]);
}

// Of a token whose logits are wanted, by its place among them.
uint output_token(uint output_row) {
  return TABLE_PAGES == 0 ? uint(step_words[FIRST_OUTPUT]) + output_row
                    : uint(step_words[OUTPUT_WORDS + output_row]);
}

// Positions of a token's sequence once all of the step's tokens are in the cache.
uint kv_length_of(uint token) {
  if (TABLE_PAGES == 0) return uint(step_words[KV_LENGTH]);
  uint next = uint(step_words[SEGMENT_WORDS + token]) + 1;
  bool is_last = next >= uint(step_words[N_SEGMENTS]);
  uint end = uint(step_words[is_last ? N_TOKENS : FIRST_TOKEN_WORDS + next]);
  return position_of(end - 1) + 1;
}

// Whose gains the heads of a token's sequence have
uint slot_of(uint token) {
  return TABLE_PAGES == 0 ? 0 : uint(step_words[SLOT_WORDS + uint(step_words[SEGMENT_WORDS + token])]);
}

// Where the positions of a token lie, as cache_row takes it: the word at which the table of its sequence begins; 0 of
// a plain step.
uint places_of(uint token) {
  return TABLE_PAGES == 0 ? 0 : TABLE_WORDS + uint(step_words[SEGMENT_WORDS + token]) * TABLE_PAGES;
}

// Of a cache of so many rows, of which the first `ring_rows` are the first sequence's.
uint cache_row(uint places, uint position, uint cache_rows, uint ring_rows) {
  if (TABLE_PAGES == 0) return position % cache_rows;
  uint page = uint(step_words[places + position / PAGE]);
  if (cache_rows / PAGE < RINGED + OTHERS) {
    uint ring = ring_rows / PAGE, own = page - RINGED;
    if (page < RINGED)
      page = page % ring;
    else
      page = ring + (cache_rows / PAGE - ring < OTHERS ? uint(step_words[WINDOW_WORDS + own]) : own);
  }
  return page * PAGE + position % PAGE;
}
