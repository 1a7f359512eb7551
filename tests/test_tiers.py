"""A group of tests runs again when what it tests has changed, or when it has not passed whole."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import tiers
from tests.paths import ROOT

CONFTEST = """
from pathlib import Path
from tests.tiers import Group, Tiers, add_options as pytest_addoption

def pytest_configure(config):
    config.addinivalue_line("markers", "thorough: of the second tier")
    groups = {"parts": Group(("test_toy.py",), ("parts", "tool.txt"))}
    config.pluginmanager.register(Tiers(config, Path(__file__).parent, groups, ["test_toy.py::"]))
"""
TESTS = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("word", ["good", "fine"])
def test_toy(word):
    assert Path("parts/one.txt").read_text() != "bad"
    Path("ran.txt").open("a").write(word)
"""


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_toy.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = .\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.txt").write_text("good")
    (tmp_path / "tool.txt").write_text("old")
    return tmp_path


def run(folder: Path, *words: str) -> str:
    """The last lines of a run, which say what was left out and how many passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    environment = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


CHANGED = "--changed-groups"
ONCE_MORE = "parts: passed before with the same parts, tool.txt, not run"


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "workers"])
def test_a_group_that_passed_is_left_out_until_a_source_changes(toy, workers):
    assert "3 passed" in run(toy, CHANGED, *workers)
    again = run(toy, CHANGED, *workers)
    assert ONCE_MORE in again and "1 passed" in again
    (toy / "parts" / "one.txt").write_text("better")
    assert "3 passed" in run(toy, CHANGED, *workers)


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "workers"])
def test_a_group_that_failed_runs_again(toy, workers):
    (toy / "parts" / "one.txt").write_text("bad")
    for _ in range(2):
        assert "2 failed, 1 passed" in run(toy, CHANGED, *workers)
    (toy / "parts" / "one.txt").write_text("good")
    assert "3 passed" in run(toy, CHANGED, *workers)
    assert ONCE_MORE in run(toy, CHANGED, *workers)


def test_a_group_runs_again_when_a_source_is_renamed_or_added(toy):
    one = toy / "parts" / "one.txt"
    run(toy, CHANGED)
    for name in ("more.txt", "other.txt"):
        (toy / "parts" / name).write_text("")
        assert "3 passed" in run(toy, CHANGED), name
    (toy / "parts" / "other.txt").rename(toy / "parts" / "another.txt")
    assert "3 passed" in run(toy, CHANGED)
    assert ONCE_MORE in run(toy, CHANGED)
    assert one.read_text() == "good"


@pytest.mark.parametrize("words", [("-k", "good or other"), ("-m", "not thorough")])
def test_a_part_of_a_group_says_nothing_about_the_whole(toy, words):
    run(toy, CHANGED, *words)
    assert "3 passed" in run(toy, CHANGED)


def test_a_file_that_cannot_be_imported_has_not_passed(toy):
    (toy / "test_toy.py").write_text(f"{TESTS}\nraise RuntimeError")
    run(toy, CHANGED, "--continue-on-collection-errors")
    (toy / "test_toy.py").write_text(TESTS)
    assert "3 passed" in run(toy, CHANGED)


def test_without_the_option_all_tests_run_and_nothing_is_noted(toy):
    run(toy)
    assert not (toy / "build").exists()
    run(toy, CHANGED)
    assert "3 passed" in run(toy)
    assert "1 passed, 2 deselected" in run(toy, "-m", "not thorough")


def test_a_change_while_the_tests_run_is_not_tested(toy):
    (toy / "test_toy.py").write_text(f"{TESTS}\n    Path('tool.txt').write_text('new')\n")
    assert "3 passed" in run(toy, CHANGED)
    assert "3 passed" in run(toy, CHANGED)
    assert ONCE_MORE in run(toy, CHANGED)


def test_files_are_no_run_of_all_tests(toy):
    assert "--changed-groups is for a run of all tests" in run(toy, CHANGED, "test_toy.py")


def test_other_packages_and_variables_count(monkeypatch, toy):
    group = tiers.Group((), ("parts",))
    before = tiers.digest(toy, group)
    assert tiers.digest(toy, group) == before
    monkeypatch.setenv("LLM_LITE_PROCESSOR", "scalar")
    assert tiers.digest(toy, group) != before
    monkeypatch.undo()
    monkeypatch.setattr(tiers, "distributions", list)
    assert tiers.digest(toy, group) != before


def test_what_the_tables_name_exists():
    sources = [source for group in tiers.GROUPS.values() for source in group.sources]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    tests = [*tiers.THOROUGH, *(test for group in tiers.GROUPS.values() for test in group.tests)]
    files = [test.partition("::")[0] for test in tests]
    assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize(
    ("place", "backend", "again"),
    [
        ("tests/core/serving/test_x.py::test_y", "numpy", True),
        ("tests/core/serving/test_x.py::test_y", "cpu", False),
        ("tests/core/models/test_x.py::test_y", "numpy", False),
        ("tests/core/models/test_x.py::test_y", "vulkan", True),
        ("tests/core/exec/test_x.py::test_y", "vulkan", False),
    ],
)
def test_cases_on_executors_beside_others(place, backend, again):
    item = SimpleNamespace(nodeid=place, callspec=SimpleNamespace(params={"backend": backend}))
    assert tiers.is_on_another_again(item) == again
    assert not tiers.is_on_another_again(SimpleNamespace(nodeid=place))
