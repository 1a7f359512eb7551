"""The rooms of the house: folders of one subject each, all of them on the map, and their cost."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests import house
from tests.paths import ROOT, program_files

FOLDERS = Counter(str(path.parent.relative_to(ROOT)) for path in program_files())


def test_a_folder_says_what_it_is_for():
    first = {
        folder: (ROOT / folder / "__init__.py").read_text("utf-8").partition("\n")[0]
        for folder in FOLDERS
    }
    assert [f for f, line in first.items() if not re.match('""".{28}', line)] == []


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


def test_the_house_costs_no_more_than_is_said(capsys):
    """Lines, small folders, modules that were cut off a neighbour: `python -m tests.house`."""
    found, most = house.measured(), house.stored()
    with capsys.disabled():
        print(f"\n{house.table(found)}")
    grown = {name: n for name, n in found.figures().items() if n > most[name]["most"]}
    assert not grown, "raise it in tests/house.json, with the reason, or make it smaller"
    assert all(len(one["reason"]) > 20 for one in most.values())


def test_what_was_cut_off_is_found():
    """A module of one importer beside it, by either way to import it; not one of two importers."""
    texts = {
        Path("core/a/used.py"): "X = 1\n",
        Path("core/a/cut.py"): "Y = 1\n",
        Path(
            "core/a/user.py"
        ): "from llm_lite.core.a import cut\nfrom llm_lite.core.a.used import X",
        Path("core/b/far.py"): "Z = 1\n",
        Path("core/a/other.py"): "from llm_lite.core.a.used import X\nimport llm_lite.core.b.far",
        Path("core/a/long.py"): "\n" * 100,
        Path("core/b/user.py"): "import llm_lite.core.b.far, llm_lite.core.a.user",
    }
    assert list(house._cut_off(texts)) == ["llm_lite.core.a.cut <- llm_lite.core.a.user"]
    folders = [*texts, Path("core/a/one/alone.py"), Path("desktop/features/chat/view.py")]
    assert list(house._small_folders(folders)) == ["core/b: 2", "core/a/one: 1"]
