"""Between the window and the models: `host` asks the disk, the hub and the queue, in threads."""
