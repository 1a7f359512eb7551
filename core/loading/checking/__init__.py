"""The check that the files of a model hold what was written."""
