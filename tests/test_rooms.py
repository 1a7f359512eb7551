"""The rooms of the house: small folders of one subject each, all of them on the map."""

import ast
from collections import Counter, defaultdict

import pytest

from tests.paths import ROOT, program_files

FOLDERS = Counter(str(path.parent.relative_to(ROOT)) for path in program_files())


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_says_what_it_is_for(folder):
    first = (ROOT / folder / "__init__.py").read_text("utf-8").partition("\n")[0]
    assert first.startswith('"""') and len(first) > 30
    if folder != "llm_lite":
        architecture = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
        assert f"`{folder}/`" in architecture or folder in ("core", "desktop")


def test_folders_are_small():
    assert max(FOLDERS.values()) <= 16, FOLDERS.most_common(3)
    for top in ("core", "desktop", "llm_lite"):
        assert FOLDERS[top] <= 10


@pytest.mark.parametrize("top", ["core", "desktop", "llm_lite"])
def test_names_say_one_thing(top):
    """No two classes of one name in a package, and no function that is called `_`."""
    classes, nameless = defaultdict(list), []
    for path in program_files():
        place = str(path.relative_to(ROOT))
        if not place.startswith(f"{top}/"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(place)
            if isinstance(node, ast.FunctionDef) and node.name == "_":
                nameless.append(f"{place}:{node.lineno}")
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}
    assert nameless == []


def test_files_and_functions_can_be_read_at_once():
    """At most 400 lines a file, 60 a function."""
    long = []
    for path in program_files():
        text, place = path.read_text("utf-8"), path.relative_to(ROOT)
        if text.count("\n") > 400:
            long.append(str(place))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 60:
                long.append(f"{place}: {node.name}")
    assert long == []
