"""Quantization: the registry of weight formats, and the quantizer."""
