"""Every file that is read or written: limits, mappings, and the one door for writing."""
