"""What a person does with models as files: find, fetch, convert, verify, delete."""
