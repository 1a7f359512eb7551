"""The executor that records a plan once as Vulkan command buffers and replays them."""
