"""The rooms of the house: folders of one subject each, all of them on the map, and their cost."""

import ast
import re
from collections import Counter, defaultdict

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
def test_a_function_has_a_name(top):
    nameless = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in program_files()
        if path.relative_to(ROOT).parts[0] == top
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == "_"
    ]
    assert nameless == []


def test_public_messages_have_names_of_their_own():
    """Commands, events and records of `core/messages` are known by name everywhere."""
    places = defaultdict(list)
    for path in sorted((ROOT / "core" / "messages").glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_lines_are_counted_by_folder():
    now = house.lines_now()
    assert now["core/plan"] == sum(
        path.read_text("utf-8").count("\n") for path in (ROOT / "core" / "plan").rglob("*.py")
    )
    rows = house.table(now, house.Lines({"core/plan": -3, "core/gone": -10})).splitlines()
    assert [row.split()[-1] for row in rows if row.startswith("core/plan ")] == ["-3"]
    assert [row.split()[1:] for row in rows if row.startswith("core/gone ")] == [["0", "-10"]]
    assert rows[-1].split()[-1] == "-13"
