"""What the engine says of caches that are kept on disk, folded into the state."""
