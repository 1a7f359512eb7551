"""Models: what lies on this machine, what a hub has, what is fetched, converted and deleted."""
