"""Many answers at once: sequences that share steps, a cache in pages, and prefixes held once."""
