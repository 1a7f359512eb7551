"""Where the fonts, the icon, the settings and the sample text lie that come with the program."""

from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "assets"  # in the checkout and where installed
