"""The kernel study: one matrix product in five forms, on Vulkan and in C++, beside the device's own
limits of arithmetic and memory. `forms` says which there are, `study` measures them."""
