"""What an encoder is told and what it says: texts, sentences to compare, masked tokens."""
