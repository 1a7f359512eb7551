"""Functions that a model may call: declared, served by tool servers, called, answered."""
