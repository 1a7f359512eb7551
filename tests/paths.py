"""Where things lie, so that a test may be moved."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # of the repository
FIXTURES = ROOT / "tests" / "fixtures"


def program_files() -> list[Path]:
    """Every Python file of the program, by its own path: not by the links in llm_lite/."""
    found = [path for top in ("core", "desktop") for path in (ROOT / top).rglob("*.py")]
    found += (ROOT / "llm_lite").glob("*.py")
    for face in ("api", "cli", "server"):
        found += (ROOT / "llm_lite" / face).rglob("*.py")
    return sorted(found)
