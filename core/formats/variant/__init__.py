"""Quantized variants: safetensors files whose blocks lie as the kernels read them."""
