"""Models on this machine and on a hub, and the queue of what is done with them, as the window knows them."""
