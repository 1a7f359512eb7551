"""How answers are made: the panel of the sampler in its groups, and presets."""
