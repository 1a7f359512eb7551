"""The languages of the window: what the program says, from gettext's catalogues."""
