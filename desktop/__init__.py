"""The window: it shows what the engine says and sends it what a person asks for."""
