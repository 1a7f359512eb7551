"""Attention maps, computed on the device that draws them."""
