"""Models on this machine and on a hub, and the queue of them, as the window knows them."""
