"""Input methods on Linux: composition of Korean, Chinese and others at the caret, by IBus.

GLFW has no composition of its own: without this, X11 gives a program only what was composed, and
what is being composed is seen nowhere. On Windows and macOS the system and Dear ImGui do it.
"""
