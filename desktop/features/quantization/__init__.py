"""Weight modes: what each takes and loses, and two of them side by side."""
