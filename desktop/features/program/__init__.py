"""Program holds what belongs to no other feature: the whole state, notices, the log, the rail and
the status bar."""
