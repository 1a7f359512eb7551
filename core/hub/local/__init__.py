"""Models on this machine, wherever programs put them: found, named, removed."""
