"""Run a language model on your own machine and see inside it while it talks."""
