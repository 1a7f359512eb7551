"""The page of models: what lies on this machine, what a hub has, what is fetched and converted."""
