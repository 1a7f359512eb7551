"""What the tokenizer view was asked to show, and what tokenizers answered."""
