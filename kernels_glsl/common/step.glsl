// The step buffer: what changes from step to step. core/plan/step.py says the same.
layout(binding = 0) readonly buffer Step { int step_words[]; };

const uint HEADER_WORDS = 16;
const uint N_TOKENS = 0;
const uint START = 1;
const uint KV_LENGTH = 2;
const uint FIRST_OUTPUT = 3;
const uint N_OUTPUTS = 4;
const uint N_SEGMENTS = 5;
const uint SOURCE_LENGTH = 6;

// Recordings are made for the largest step; rows beyond those in use are skipped.
// ROWS_WORD says which header word counts the rows of this op: N_TOKENS or N_OUTPUTS.
layout(constant_id = 0) const uint ROWS_WORD = 0;
layout(constant_id = 27) const uint PER_TOKEN = 1;  // rows of a token: one for each chosen expert

uint rows_in_use() { return uint(step_words[ROWS_WORD]) * PER_TOKEN; }
uint start_position() { return uint(step_words[START]); }
