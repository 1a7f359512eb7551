"""Writes the locks of the environment: `make lock` calls it, with uv in its own environment.

    python tools/lock.py [--newest]

`tools/locked/setup.txt` is what the program is built and runs with, `test.txt` what its tests take
besides, each with the hashes of all files of a release, for every supported Python and system.
Versions stay while they fit to pyproject.toml; `--newest` takes the newest that fit.
`assets/locked/` has the packages of models: another version is written there by hand, and this
finds its hashes. Their own requirements are of another program and are left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKED, MODELS = ROOT / "tools" / "locked", ROOT / "assets" / "locked"
HEAD = "# Written by `make lock`.\n"


def requirements(name: str) -> list[str]:
    """Return the requirements of pyproject.toml for a lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    if name == "setup":
        return [*groups["build"], *project["project"]["dependencies"]]
    packages = sorted((ROOT / "packages").glob("*/pyproject.toml"))
    builders = (tomllib.loads(path.read_text())["build-system"]["requires"] for path in packages)
    return [*groups["dev"], *dict.fromkeys(one for each in builders for one in each)]


def lock(
    lines: Iterable[str], target: Path, words: Sequence[str] = (), *, newest: bool = False
) -> None:
    """Write the lock of requirements to `target`, whose versions stay where they fit."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lowest = re.sub(r"[^\d.]", "", project["project"]["requires-python"])
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "source.txt", Path(folder) / "made.txt"
        source.write_text("\n".join(lines) + "\n")
        made.write_text(target.read_text() if target.exists() and not newest else "")
        subprocess.run(
            [
                *(sys.executable, "-m", "uv", "pip", "compile", source, "--output-file", made),
                *("--universal", "--python-version", lowest, "--generate-hashes"),
                *("--no-header", "--no-annotate", "--no-emit-index-url"),
                *("--no-emit-find-links", "--quiet", *words),
            ],
            check=True,
        )
        target.write_text(HEAD + made.read_text())
    print(f"Written: {target.relative_to(ROOT)}")


def main(words: Sequence[str]) -> None:
    newest = "--newest" in words
    setup, test = LOCKED / "setup.txt", LOCKED / "test.txt"
    lock(requirements("setup"), setup, newest=newest)
    lock(requirements("test"), test, ("--constraint", str(setup)), newest=newest)
    for model in sorted(MODELS.glob("*.txt")):
        pinned = re.findall(r"^[\w-]+==[\w.]+", model.read_text(), re.MULTILINE)
        lock(pinned, model, ("--no-deps",))


if __name__ == "__main__":
    main(sys.argv[1:])
