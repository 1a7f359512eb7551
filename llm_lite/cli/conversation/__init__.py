"""`llm-lite chat` in a terminal: the conversation, its /commands, the line editor, its file."""
