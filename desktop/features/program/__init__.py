"""What belongs to no other feature: the whole state, notices, the log, the rail, the status bar."""
