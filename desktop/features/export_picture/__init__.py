"""Pictures of views that a person saves as files."""
