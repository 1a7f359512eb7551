"""One token traced through the model, with the numbers of every op on its way.

`wiring` finds a layer's ops by their labels, whatever the model; `recording` runs the token again
and reads them; `one_head` looks from one head over the cache; `collecting` makes the trace of it.
"""
