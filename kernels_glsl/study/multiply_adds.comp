#version 450
#extension GL_EXT_control_flow_attributes : require
// The most multiply-adds that the device can do: sums that stay in registers and do not wait for one
// another. Each comes to 1 and stays there; neither factor nor addend is known when it is compiled.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 64;
const uint SUMS = 8, STEPS = 8;  // multiply-adds of a round: their product
layout(binding = 0) readonly buffer Source { float factor, addend; uint rounds; };
layout(binding = 1) writeonly buffer Target { float target[]; };

void main() {
  float f = factor, g = addend, sums[SUMS];
  [[unroll]] for (uint i = 0; i < SUMS; ++i) sums[i] = float(gl_LocalInvocationIndex + i);
  for (uint round = 0; round < rounds; ++round) {
    [[unroll]] for (uint step = 0; step < STEPS; ++step) {
      [[unroll]] for (uint i = 0; i < SUMS; ++i) sums[i] = sums[i] * f + g;
    }
  }
  float total = 0.0;
  [[unroll]] for (uint i = 0; i < SUMS; ++i) total += sums[i];
  if (total < 0.0) target[gl_WorkGroupID.x] = total;  // never, but only the device knows
}
