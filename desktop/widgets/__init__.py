"""The parts of views: theme, fonts, controls and text."""
