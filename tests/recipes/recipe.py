"""A recipe's places, edits of them, and the copy of the repository that takes these."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from tests.paths import ROOT

SITE = Path(sysconfig.get_path("purelib"))
KERNELS = "llm_lite_kernels"
# A new file's text, or, in a file that is there, a part of one line -> the lines that follow it.
Edit = str | Mapping[str, str]
Edits = Mapping[str, Edit]

_COPIED = ("core", "desktop", "docs", "llm_lite", "kernels_cpp", "kernels_glsl", "tests", "tools")
_FILES = ("CMakeLists.txt", "CONTRIBUTING.md", "ARCHITECTURE.md", "README.md", "pyproject.toml")
_LINKED = ("assets",)


def places(recipe: str, **names: str) -> list[str]:
    """The paths of a recipe of CONTRIBUTING.md; `names` fill its <placeholders>."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition(f"### {recipe}\n")[2].partition("\n#")[0]
    lines = re.findall(r"^\d+\. ((?:.|\n   )+)", section, re.MULTILINE)
    paths = [path for line in lines for path in re.findall(r"`(\w+/[\w./<>-]+)`", _head(line))]
    return [re.sub(r"<(\w+)>", lambda match: names[match[1]], path) for path in paths]


def _head(line: str) -> str:
    """Of a line what stands before the colon: its places."""
    return line.partition(": ")[0]


class Copy:
    """A copy of the repository, with links to what no recipe touches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in _COPIED:
            unwanted = shutil.ignore_patterns("__pycache__", "results")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=unwanted)
        for name in _FILES:
            shutil.copy(ROOT / name, folder / name)
        for name in _LINKED:
            (folder / name).symlink_to(ROOT / name)
        self.packages = folder / "build" / "packages"  # before those of the environment
        self._link_kernels()

    def _link_kernels(self) -> None:
        """Those of this environment, to which shaders can be added."""
        there, here = SITE / KERNELS, self.packages / KERNELS
        (here / "spirv").mkdir(parents=True)
        for file in [*there.glob("*.*"), *there.glob("spirv/*.spv")]:
            (here / file.relative_to(there)).symlink_to(file)
        for finder in SITE.glob("_editable_*.py"):  # it would lead children to the checkout's
            (self.folder / "build" / finder.name).touch()

    def follow(self, edits: Edits) -> None:
        for place, edit in edits.items():
            path = self.folder / place
            if isinstance(edit, str):
                assert not path.exists(), place
                path.parent.mkdir(exist_ok=True)
                path.write_text(edit, "utf-8")
                continue
            text = path.read_text("utf-8")
            for part, more in edit.items():
                assert text.count(part) == 1, f"{place}: {part!r} occurs {text.count(part)} times"
                end = text.index("\n", text.index(part)) + 1
                text = text[:end] + more + text[end:]
            path.write_text(text, "utf-8")

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Of this environment, but with the copy's modules; -S, for the checkout is on its path."""
        build = self.folder / "build"
        paths = os.pathsep.join(map(str, (self.folder, self.packages, build, SITE)))
        return self.run(sys.executable, "-S", *words, PYTHONPATH=paths)

    def tests(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "pytest", "-p", "no:cacheprovider", *words)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | variables
        return subprocess.run(
            words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )


def passed(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether it ended well; what it said, for whoever reads a failing test."""
    if done.returncode != 0:
        print(done.stdout[-3000:], done.stderr[-3000:])
    return done.returncode == 0
