"""SentencePiece: its merges of pieces, its files, and Marian's pair of them."""
