// Which expert has a row, of tensors with a row for each choice in the order of experts.
layout(constant_id = 24) const uint EXPERTS = 0;  // 0: a product has one matrix for all rows
layout(binding = 7) readonly buffer Starts { float starts[]; };  // [EXPERTS + 1], the first row of each

uint expert_of(uint row) {  // the last that begins there or before: one without rows begins with the next
  uint low = 0, high = EXPERTS;
  while (high - low > 1) {
    uint middle = (low + high) / 2;
    if (starts[middle] <= float(row)) low = middle;
    else high = middle;
  }
  return low;
}
