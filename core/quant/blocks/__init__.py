"""Weight formats, a file each: how values become blocks of bytes, and back."""
