"""IQ formats of ggml whose codes name vectors of 4 or 8 values in a codebook."""
