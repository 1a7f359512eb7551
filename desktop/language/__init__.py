"""The languages of the window: its texts, from gettext's catalogues."""
