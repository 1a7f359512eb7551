"""Model definitions: an architecture a file.

A file says what an architecture has of its own: rows of fields, rows of tensors, and its layer as a
few calls of `blocks.py`. The attributes of a config carry their rows (`description/rows.py`): key
in GGUF, key in config.json, what a value can be, default. The same rows read either file, each in
its own words, so that one check serves both; what they read from a config.json is written down
under GGUF's keys, the form that variants keep. A row of a tensor has both names, and the shape by
names of attributes. A row also holds what is more than a name: a default made of earlier
attributes, or a function that finds a value in an unusual config.json. What a file lacks for a
graph (views of fused matrices, factors of rotary positions) is added when it is opened.

A definition checks every tensor's name and shape before it builds a plan. It imports no executor.
"""
