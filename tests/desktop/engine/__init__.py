"""An engine without a model for tests of the window: `engine.py` carries commands out by a table,
the other files are what it says of each subject. It is compared with the real one."""
