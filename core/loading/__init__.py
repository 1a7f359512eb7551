"""From a name or path to a model that runs: its source, its executor, its checks.

The vocabulary and the template are read in a thread while the weights are prepared
(`background.py`); the engine waits for them last, other callers when they open the file.
`backends.py` chooses the executor: `auto` takes a Vulkan device unless it is software or cannot be
opened, else C++; in the window only the device that draws.
"""
