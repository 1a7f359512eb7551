"""Prints requirements out of pyproject.toml: `runtime`, or the name of a dependency group."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
for group in sys.argv[1:]:
    if group == "runtime":
        print(*project["project"]["dependencies"], sep="\n")
    else:
        print(*project["dependency-groups"][group], sep="\n")
