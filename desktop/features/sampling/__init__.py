"""How tokens are chosen: the panel of the sampler in its groups."""
