"""Each door, some of its cases in processes with limits: none of them fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_lite.core.formats import gguf_reader as gguf
from llm_lite.core.formats import safetensors_reader as reader
from llm_lite.core.formats import variant_reader as variant
from tests.fuzz.child import load_door
from tests.fuzz.door import case_of, judge
from tests.fuzz.runner import fuzz
from tests.fuzz.shares import DOORS, share

COUNT = 970  # over all doors: the first of those that `make fuzz` tries


@pytest.mark.parametrize("door", DOORS)
def test_no_case_fails(door, tmp_path):
    report = fuzz(door, share(door, COUNT), keep=tmp_path)
    assert report.cases == share(door, COUNT)
    assert report.failed == 0, "\n".join(map(str, report.failures))
    assert report.outcomes["ok"] > report.cases / 50, "what is tried never comes to its end"


@pytest.mark.parametrize(
    ("door", "module", "missing"),
    [
        ("gguf", gguf, {"_check_offset": lambda *_: None}),
        ("safetensors", reader, {"_are_integers": lambda value: True}),
        ("variant", variant, {"_is_name": lambda name: True, "found": lambda value: value + 1}),
    ],
)
def test_a_missing_check_is_found(door, module, missing, tmp_path, monkeypatch):
    """Without it a tensor is cut short, text is taken for a number, or a name leads to what is no
    file: using that fails."""
    for name, function in missing.items():
        monkeypatch.setattr(module, name, function)
    assert "traceback" in outcomes(door, 400, tmp_path, monkeypatch)


def outcomes(name: str, count: int, folder: Path, monkeypatch) -> Iterator[str]:
    """What comes of one case after the other in this process, whose code a test may change."""
    (folder / "tmp").mkdir()
    monkeypatch.chdir(folder)
    door = load_door(name)
    door.prepare()
    for number in range(count):
        place = folder / str(number)
        place.mkdir()
        yield judge(door, case_of(door, number, place)).outcome


def test_every_door_is_run_by_name():
    doors = Path(__file__).parent / "doors"
    files = {path.stem for path in doors.glob("*.py")}
    assert files - {"planted", "__init__"} == set(DOORS)
    assert sum(share(door, 50_000) for door in DOORS) > 49_900
