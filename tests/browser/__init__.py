"""The page in a real browser: `python -m pytest -m browser tests/browser`."""
