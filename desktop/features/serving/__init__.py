"""The server that the window switches on: its switch, addresses, requests as they run."""
