"""What is being written beside the draft's own words: the files that will go with it, prompts."""
