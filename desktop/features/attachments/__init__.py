"""Files that go with a message: read and counted for the draft, folded to a line in the chat."""
