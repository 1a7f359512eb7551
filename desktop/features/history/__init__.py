"""Conversations that are kept: recorded as they are written, listed, searched and opened.

In the window the chat is a tuple of messages, each with the other versions of what followed from
there. Every message has a key that stays when the message is replaced: by these keys the recorder
(`host_recorder.py`) knows what of a new tuple is new, and which row of the file it belongs to. It
writes and never reads. Readings (pages of the list, a conversation, a search) are jobs of one
thread (`host.py`); their results come back as actions (`model.py`), which fold like any other. Both
are imported beside the first frame.
"""
