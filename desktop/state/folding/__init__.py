"""What the engine says of long tasks and of kept caches, folded into the state for `apply`."""
