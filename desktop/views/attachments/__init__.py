"""Files that go with a message: in the draft with their budget, in the chat folded to a line."""
