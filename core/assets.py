"""The program's own installation: its version, and the paths of the fonts, the icon, the settings
and the sample text that come with it."""

from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "assets"  # in the checkout and where installed


def program_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("llm-lite")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "0"
