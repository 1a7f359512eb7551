"""The stages of the queue of models (`core/hub/queue/`), each in a process of its own.

`worker` is what such a process runs: it reads its task, says how far it is, and ends when its
program does. `making` writes slices and variants, `fetching` downloads, `deleting` deletes.
Each of them can be killed at any moment and begun again.
"""
