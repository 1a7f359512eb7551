"""K-quants of ggml: super-blocks of 256 values, in blocks of 16 or 32 that have own scales."""
