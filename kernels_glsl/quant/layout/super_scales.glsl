// Scales of a super-block: d, and dmin, of the whole tile, and bytes of a part.
LEVEL signed_byte(AT, uint i) { return byte_of(part_byte(THERE, i), 0); }

// value = d * scale * level - dmin * minimum
void scale_and_minimum(AT, out LEVEL step, out LEVEL minimum) {
  step = half_of(tile_half(THERE, 0), 0) * LEVEL(part_byte(THERE, 0));
  minimum = -half_of(tile_half(THERE, 1), 0) * LEVEL(part_byte(THERE, 1));
}

// value = d * scale * level
void signed_scale(AT, uint i, out LEVEL step, out LEVEL minimum) {
  step = half_of(tile_half(THERE, 0), 0) * signed_byte(THERE, i);
  minimum = LEVEL(0.0);
}
