"""Dear ImGui on our Vulkan device: surfaces, frames, textures, pictures."""
