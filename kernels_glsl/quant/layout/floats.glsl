// Levels that are the values: their blocks have no header.
void decode_scales(AT, uint half_block, out LEVEL step, out LEVEL minimum) {
  step = LEVEL(1.0);
  minimum = LEVEL(0.0);
}
