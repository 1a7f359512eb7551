"""The part of Vulkan that the program needs, a class a file."""
