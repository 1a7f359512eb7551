"""What reading the program costs: its lines, small folders, cut off modules.

    python -m tests.house         the figures beside those that are stored
    python -m tests.house --list  and each folder and module that is counted

`tests/house.json` holds for each figure the most that it may be, and why it is so many. A commit
that raises one changes its reason too; one that lowers a figure stores it with `--store`.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.paths import ROOT, program_files

STORED = ROOT / "tests" / "house.json"
FEW_FILES = 4  # with fewer, a folder is not one: its files belong to its parent
FEW_LINES = 80  # with fewer, a module that one neighbour imports belongs to that neighbour
# A feature of the window is a folder by right: what it knows, what it draws, what it runs.
FEATURES = Path("desktop", "features")


@dataclass(frozen=True)
class House:
    lines: int  # of all Python files of the product
    small_folders: tuple[str, ...]
    cut_off: tuple[str, ...]  # "module <- its only importer"

    def figures(self) -> dict[str, int]:
        return {
            "product_lines": self.lines,
            "small_folders": len(self.small_folders),
            "cut_off_modules": len(self.cut_off),
        }


@cache
def measured() -> House:
    files = [path.relative_to(ROOT) for path in program_files()]
    texts = {path: (ROOT / path).read_text("utf-8") for path in files}
    return House(
        sum(text.count("\n") for text in texts.values()),
        tuple(sorted(_small_folders(files))),
        tuple(sorted(_cut_off(texts))),
    )


def stored() -> dict[str, dict[str, int | str]]:
    """By figure: "most", and the "reason" why it is so many."""
    found: dict[str, dict[str, int | str]] = json.loads(STORED.read_text("utf-8"))
    return found


def _small_folders(files: Iterable[Path]) -> Iterable[str]:
    """Folders with fewer Python files than FEW_FILES, and without folders in them."""
    counts: dict[Path, int] = defaultdict(int)
    for path in files:
        counts[path.parent] += path.name != "__init__.py"
    for folder, count in counts.items():
        has_folders = any(other.parent == folder for other in counts)
        if count < FEW_FILES and not has_folders and folder.parent != FEATURES:
            yield f"{folder}: {count}"


def _cut_off(texts: dict[Path, str]) -> Iterable[str]:
    """Short modules that only one other imports, which lies beside them."""
    modules = {_module(path): path for path in texts}
    importers: dict[str, set[str]] = defaultdict(set)
    for path, text in texts.items():
        for name in _imported(ast.parse(text)):
            # `from package import module` names either a module or something in one.
            target = name if name in modules else name.rpartition(".")[0]
            if target in modules and modules[target] != path:
                importers[target].add(_module(path))
    for module, path in modules.items():
        if path.name == "__init__.py" or texts[path].count("\n") >= FEW_LINES:
            continue
        found = importers[module]
        if len(found) == 1 and modules[next(iter(found))].parent == path.parent:
            yield f"{module} <- {next(iter(found))}"


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    if parts[0] != "llm_lite":
        parts = ("llm_lite", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.AST) -> Iterable[str]:
    """Every name that is imported, with its module; the product imports by whole paths only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def table(found: House) -> str:
    most = stored()
    rows = [f"{'':20}{'now':>9}{'most':>9}"]
    for name, value in found.figures().items():
        rows.append(f"{name:20}{value:9,}{most[name]['most']:9,}  {most[name]['reason']}")
    return "\n".join(rows)


def main(arguments: list[str]) -> None:
    found = measured()
    if "--list" in arguments:
        print(*found.small_folders, *found.cut_off, sep="\n")
    if "--store" in arguments:
        kept = stored()
        for name, value in found.figures().items():
            kept[name]["most"] = min(value, int(kept[name]["most"]))
        STORED.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    print(table(found))


if __name__ == "__main__":
    main(sys.argv[1:])
