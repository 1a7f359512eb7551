"""Where things lie, so that a test may be moved."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # of the repository
FIXTURES = ROOT / "tests" / "fixtures"
