"""The commands that need no window: the same engine, no ImGui."""
