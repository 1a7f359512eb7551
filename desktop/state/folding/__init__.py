"""What the engine says of its inside, of long tasks and of kept caches, folded into the state."""
