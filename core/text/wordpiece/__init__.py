"""WordPiece vocabularies, as BERT has them, and the special tokens that stand beside one."""
