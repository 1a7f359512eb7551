"""Every file that is read or written: limits, mappings, and the one way of writing."""
