"""What views are built from: theme, fonts, controls, text."""
