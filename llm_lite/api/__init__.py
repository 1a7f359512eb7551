"""The Python face: text in; tokens, NumPy arrays and pictures for notebooks out."""
