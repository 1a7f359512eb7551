"""The model in use and its executor: loaded, switched to another mode or device, closed."""
