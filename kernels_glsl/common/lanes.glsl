// The workgroup's size is chosen for the device.
layout(local_size_x_id = 1) in;
layout(constant_id = 1) const uint LANES = 64;
