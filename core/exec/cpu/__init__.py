"""The executor that runs a plan in C++ kernels on the processor."""
