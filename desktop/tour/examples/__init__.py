"""What the tour shows without asking anybody: models of a machine and of a hub that are made up."""
