"""The C++ executor against the definition."""
