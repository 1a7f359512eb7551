"""The model in use and its executor: put in place, switched to another mode or device, let go."""
