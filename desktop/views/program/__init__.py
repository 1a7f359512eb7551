"""What belongs to no conversation: models, settings, speed, the log."""
