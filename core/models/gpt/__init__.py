"""GPT-1 and GPT-2: learned positions, LayerNorm, biases."""
