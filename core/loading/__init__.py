"""From a name or path to a model that runs: its source, its executor, its checks."""
