"""Subcommands that measure: speed, kernels, and how well a model predicts a text."""
