"""Settings that are kept together under a name, as files in the data folder."""
