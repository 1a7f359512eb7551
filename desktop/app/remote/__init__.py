"""Between the window and engines elsewhere: `host` connects in a thread, `router` sends commands to
the engine that they are for, `kept` reads addresses that were used."""
