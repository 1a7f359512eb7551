#version 450
// target[i] = value * i for i < COUNT: the smallest kernel, for tests of the plumbing.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL_SIZE = 64;
layout(constant_id = 1) const uint COUNT = 1;
layout(constant_id = 2) const float VALUE = 1.0;
layout(binding = 0) writeonly buffer Target { float target[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < COUNT) target[i] = VALUE * float(i);
}
