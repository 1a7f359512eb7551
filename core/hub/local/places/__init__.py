"""The places of models, a module for each: it finds what its program put there, without copying."""
