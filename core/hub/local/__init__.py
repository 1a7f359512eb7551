"""Models that lie on this machine, wherever programs put them: found, named, removed."""
