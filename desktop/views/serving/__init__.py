"""The panel that serves the model to other programs: a switch, addresses, requests as they run."""
