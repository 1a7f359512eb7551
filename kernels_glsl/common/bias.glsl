// What is added to scores by distance: the bias [heads, columns] of a layer, at BIAS_BINDING.
layout(constant_id = 36) const uint BIAS_COLUMNS = 0;  // 0: none
layout(constant_id = 37) const uint BIAS_STRIDE = 0;   // floats from head to head
layout(constant_id = 38) const uint BIAS_BEFORE = 0;   // the column for a distance of 0
layout(binding = BIAS_BINDING) readonly buffer Bias { float bias[]; };

// The score of a key's position, with the bias for its distance from the query's `own`.
float biased(float score, uint head, uint own, uint position) {
  if (BIAS_COLUMNS == 0) return score;
  uint column = max(BIAS_BEFORE + position, own) - own;
  return score + bias[head * BIAS_STRIDE + min(column, BIAS_COLUMNS - 1)];
}
