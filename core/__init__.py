"""The engine: models, their executors and their inspection; no window, no network."""
