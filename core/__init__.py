"""The engine: models, what runs them, and what looks inside; no window, no network."""
