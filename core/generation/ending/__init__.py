"""Where an answer ends because of what it says: stop strings, invented roles, repetition."""
