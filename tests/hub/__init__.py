"""A hub on 127.0.0.1 that speaks what the real huggingface_hub client asks, and fails as told."""
