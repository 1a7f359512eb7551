// Which recurrent states the sequences of a step go on from, and where they leave them. Needs step.glsl and
// positions.glsl. Sequences are followed one after the other: one may go on from what the one before has left.
layout(constant_id = 49) const uint WINDOWED = 0;  // 1: the step buffer has places of caches with a window

const uint STATE_WORDS = WINDOW_WORDS + WINDOWED * OTHERS;

uint sequences() { return TABLE_PAGES == 0 ? 1 : uint(step_words[N_SEGMENTS]); }

uint first_token_of(uint sequence) {
  return TABLE_PAGES == 0 ? 0 : uint(step_words[FIRST_TOKEN_WORDS + sequence]);
}

uint end_of(uint sequence) {
  bool is_last = TABLE_PAGES == 0 || sequence + 1 == uint(step_words[N_SEGMENTS]);
  return uint(step_words[is_last ? N_TOKENS : FIRST_TOKEN_WORDS + sequence + 1]);
}

// The slot that a sequence goes on from; below 0: from zeros.
int state_before(uint sequence) {
  if (TABLE_PAGES == 0) return start_position() > 0 ? 0 : -1;
  return step_words[STATE_WORDS + sequence];
}

uint state_left(uint sequence) {
  return TABLE_PAGES == 0 ? 0 : uint(step_words[STATE_WORDS + MAX_SEGMENTS + sequence]);
}
