"""Functions that a model may call, as the window knows them: declared, served, called, answered."""
