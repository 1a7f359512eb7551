"""The queue of models."""
