"""The worker thread, the model it holds, and what it does between two steps of an answer."""
