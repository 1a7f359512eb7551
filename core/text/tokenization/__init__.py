"""The algorithms that make tokens of a text, step by step: merges in their order, the lattice of a
Unigram model, WordPiece's longest matches.

What the `tokenizers` library can tell (normalized text, words, ids) is taken from it; what it can
not tell is computed here, and must give the library's own ids. `merging`, `lattice` and `matching`
are one algorithm each, `traced` brings them together in the sandbox, `word_entry` describes one
word; `core/text/stages.py` is the program's side. `spelling` writes parts of a text for a person.
"""
