"""The server of the window: started and stopped in a thread of its own, and imported only then."""
