"""Executors of a plan: NumPy, which defines every op, C++ and Vulkan; and their comparison."""
