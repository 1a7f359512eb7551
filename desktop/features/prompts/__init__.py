"""The library of prompts beside the input: its list, the list that "/" opens, places to fill."""
