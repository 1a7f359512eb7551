"""Points of plots, gathered while answers are written."""
