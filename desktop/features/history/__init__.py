"""Conversations that are kept: recorded as they are written, listed, searched and opened.

The chat is a tree of messages (`core/history/tree.py`), here and in the file, and a message has the
same id in both: by it the recorder (`host_recorder.py`) knows what of a new tree is new. It writes
and never reads. Readings (pages of the list, a conversation, a search) are jobs of one
thread (`host.py`); their results come back as actions (`model.py`), which fold like any other. Both
are imported beside the first frame.
"""
