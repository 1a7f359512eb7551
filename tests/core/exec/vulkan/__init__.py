"""The Vulkan executor against the definition, with validation."""
