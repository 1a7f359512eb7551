"""The page of models: its state, its views, and the host that asks disk, hub and queue."""
